-- What a model may be asked of failures that the rules saw nothing in. A closed one stays without its body for a
-- while: what was asked once is not asked at the next failure of its kind. It may be there: for a time the first
-- script made it.
CREATE TABLE IF NOT EXISTS questions (
    id            TEXT PRIMARY KEY,
    project       TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    n_asked       INTEGER NOT NULL,
    n_bad         INTEGER NOT NULL,
    body          TEXT
) WITHOUT ROWID;
