-- Ids of rows are given in order of arrival, so that what is written together lies together; the business id has the
-- one index that is in no order. What is in flight is owned by a node and only appends to the journal; the other
-- columns of its row are written when it is submitted, parked, taken over, and when it ends.

CREATE TABLE saga (
    rowid              INTEGER PRIMARY KEY,
    id                 TEXT    NOT NULL UNIQUE,
    fingerprint        TEXT    NOT NULL,
    saga               TEXT    NOT NULL,
    definition_version INTEGER NOT NULL,
    digest             TEXT    NOT NULL,
    status             TEXT    NOT NULL,
    business_state     TEXT    NOT NULL,
    seq                INTEGER NOT NULL,
    step               TEXT,
    operation          TEXT,
    error_class        TEXT,
    reason             TEXT,
    contradictions     INTEGER NOT NULL,
    overdue            INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    ended_at           INTEGER,
    due_at             INTEGER,
    owner_node         TEXT,
    owner_epoch        INTEGER,
    pruned             INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What is due costs what is due: sagas that are not waiting, or wait for nothing, are in none of these.
CREATE INDEX saga_due ON saga (due_at) WHERE owner_epoch IS NULL AND due_at IS NOT NULL;
CREATE INDEX saga_owned ON saga (owner_epoch) WHERE owner_epoch IS NOT NULL;
-- For lists by status. Sagas in flight are few and are found by their owner, which spares the hot path an index.
CREATE INDEX saga_free ON saga (status) WHERE owner_epoch IS NULL;
CREATE INDEX saga_ended ON saga (ended_at)
    WHERE ended_at IS NOT NULL AND pruned = 0 AND owner_epoch IS NULL AND due_at IS NULL;
CREATE INDEX saga_dead ON saga (saga, step, operation, error_class, updated_at) WHERE status = 'dead';
CREATE INDEX saga_contradicted ON saga (contradictions) WHERE contradictions > 0;

-- Appended to, never updated. A table clustered by (saga, seq) would split pages in its middle and keep large bodies
-- out of line: it appends at two thirds of the rate for small bodies, at a third for large ones.
-- No foreign key here and in claim: that the saga is there is checked before anything is written, and with one a
-- deletion of claims alone would cost a seventh of a saga's four commits.
CREATE TABLE entry (
    saga  INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    keep  INTEGER NOT NULL,
    body  BLOB    NOT NULL,
    UNIQUE (saga, seq)
) STRICT;

CREATE TABLE claim (
    name  TEXT    NOT NULL PRIMARY KEY,
    saga  INTEGER NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX claim_saga ON claim (saga);

-- Numbers are never given twice: a poster may ask for an answer that retention has removed.
CREATE TABLE mail (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    saga      INTEGER NOT NULL REFERENCES saga (rowid),
    input_id  TEXT    NOT NULL,
    body      BLOB    NOT NULL,
    posted_at INTEGER NOT NULL,
    answer    BLOB,
    UNIQUE (saga, input_id)
) STRICT;
CREATE INDEX mail_waiting ON mail (saga, id) WHERE answer IS NULL;
CREATE INDEX mail_answered ON mail (posted_at) WHERE answer IS NOT NULL;

CREATE TABLE definition (
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    digest     TEXT    NOT NULL,
    tree       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX definition_digest ON definition (digest);

CREATE TABLE node (
    name       TEXT    NOT NULL PRIMARY KEY,
    epoch      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How many sagas that nobody owns have this status: counting rows would cost what exists.
CREATE TABLE tally (
    ended  INTEGER NOT NULL,
    status TEXT    NOT NULL,
    saga   TEXT    NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (ended, status, saga)
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('epoch', 0);

-- Always empty. What is written to it and removed again shows whether a full disk has room again.
CREATE TABLE probe (
    body BLOB NOT NULL
) STRICT;
