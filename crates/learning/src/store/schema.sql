-- What was tried, as it came from the events.
CREATE TABLE traces (
    id            TEXT PRIMARY KEY,
    project       TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    body          TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX traces_by_time ON traces (created_at_ms);

-- The lessons, as JSON, with the columns that they are found by. The scope of the user's lessons is empty.
CREATE TABLE lessons (
    n                INTEGER PRIMARY KEY,
    id               TEXT NOT NULL UNIQUE,
    scope            TEXT NOT NULL,
    failure          TEXT,
    is_in_use        INTEGER NOT NULL,
    is_users         INTEGER NOT NULL,
    last_occurred_ms INTEGER NOT NULL,
    body             TEXT NOT NULL
);
CREATE INDEX lessons_by_scope ON lessons (scope, is_in_use, is_users, last_occurred_ms);
CREATE INDEX lessons_by_failure ON lessons (failure) WHERE failure IS NOT NULL;

-- The terms of each lesson; the program splits texts into terms, spaces separate them. The scope is a term too.
CREATE VIRTUAL TABLE terms USING fts5 (text, tokenize = "unicode61 remove_diacritics 2");

-- In how many lessons each term stands.
CREATE VIRTUAL TABLE term_counts USING fts5vocab (terms, row);
