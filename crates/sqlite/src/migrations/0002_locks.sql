-- Lease locks. A row outlives its lease, because tokens never go back; it is removed a week after its last use, and then
-- `lock_floor` in `meta` is at least as high as its token. Times are milliseconds.

CREATE TABLE lock (
    name         TEXT    NOT NULL PRIMARY KEY,
    token        INTEGER NOT NULL,
    owner        TEXT    NOT NULL,
    label        TEXT    NOT NULL,
    since        INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    ended        TEXT,
    last_token   INTEGER,
    last_outcome TEXT,
    last_kind    TEXT,
    last_text    TEXT,
    last_at      INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX lock_expired ON lock (expires_at);

INSERT INTO meta (name, value) VALUES ('lock_floor', 0);
