-- What was tried, as it came from the events.
CREATE TABLE traces (
    id            TEXT PRIMARY KEY,
    project       TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    body          TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX traces_by_time ON traces (created_at_ms);

-- Up to which event a session went into the memory.
CREATE TABLE sessions (
    id  TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) WITHOUT ROWID;

-- What is remembered, as far as it is searched and sorted by: short rows, of which a search reads hundreds.
CREATE TABLE items (
    n                INTEGER PRIMARY KEY,
    id               TEXT NOT NULL UNIQUE,
    scope            TEXT NOT NULL,
    kind             TEXT NOT NULL,
    wins             INTEGER NOT NULL,
    losses           INTEGER NOT NULL,
    last_occurred_ms INTEGER NOT NULL,
    is_in_use        INTEGER NOT NULL,
    words            TEXT NOT NULL,
    condition        TEXT
);
-- The items themselves.
CREATE TABLE bodies (
    n    INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);
CREATE INDEX items_by_condition ON items (condition) WHERE condition IS NOT NULL;
CREATE INDEX items_by_scope ON items (scope, last_occurred_ms);

-- Word → items. The words come ready from the program: only spaces part them.
CREATE VIRTUAL TABLE item_words USING fts5 (
    words,
    content = '',
    contentless_delete = 1,
    detail = none,
    tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);

-- Word → the number of items in which it stands; `@words`: how many words there are in all.
CREATE TABLE words (
    word TEXT PRIMARY KEY,
    n    INTEGER NOT NULL
) WITHOUT ROWID;

-- Weights of skills and methodologies.
CREATE TABLE weights (
    subject TEXT PRIMARY KEY,
    weight  REAL NOT NULL
) WITHOUT ROWID;
