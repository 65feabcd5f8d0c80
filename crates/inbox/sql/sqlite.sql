-- The inbox of a participant in SQLite (3.38 or later). What each statement is for, and in which order: docs/inbox.md.

-- name: table
CREATE TABLE IF NOT EXISTS amends_inbox (
    operation_key TEXT NOT NULL PRIMARY KEY
        CHECK (length(CAST(operation_key AS BLOB)) BETWEEN 1 AND 512),
    operation     TEXT NOT NULL CHECK (operation IN ('action', 'compensation')),
    state         TEXT NOT NULL CHECK (state IN ('running', 'done', 'rejected', 'sealed')),
    action_key    TEXT,
    request_hash  BLOB,
    answer        TEXT,
    undone_by     TEXT,
    created_at    INTEGER NOT NULL DEFAULT (unixepoch()),
    keep_until    INTEGER NOT NULL,
    CHECK ((operation = 'compensation') = (action_key IS NOT NULL)),
    CHECK (state <> 'sealed' OR operation = 'action'),
    CHECK ((state IN ('done', 'rejected')) = (answer IS NOT NULL))
) STRICT;

-- name: index
CREATE INDEX IF NOT EXISTS amends_inbox_keep_until ON amends_inbox (keep_until);

-- name: take
INSERT INTO amends_inbox (operation_key, operation, state, action_key, request_hash, keep_until)
VALUES (:key, :operation, 'running', :action_key, :request_hash, unixepoch() + :keep_s)
ON CONFLICT (operation_key) DO NOTHING;

-- name: seal
INSERT INTO amends_inbox (operation_key, operation, state, keep_until)
VALUES (:key, 'action', 'sealed', unixepoch() + :keep_s)
ON CONFLICT (operation_key) DO UPDATE
SET keep_until = max(keep_until, excluded.keep_until);

-- name: read
SELECT operation, state, action_key, request_hash, answer, undone_by
FROM amends_inbox WHERE operation_key = :key;

-- name: settle
UPDATE amends_inbox SET state = :state, answer = :answer
WHERE operation_key = :key AND state = 'running';

-- name: undone
UPDATE amends_inbox SET undone_by = :undone_by
WHERE operation_key = :key AND state = 'done' AND undone_by IS NULL;

-- name: query
SELECT operation, state, action_key, request_hash, answer, undone_by
FROM amends_inbox WHERE operation_key = :key;

-- name: forget
DELETE FROM amends_inbox
WHERE operation_key IN (
    SELECT operation_key FROM amends_inbox
    WHERE keep_until < unixepoch() ORDER BY keep_until LIMIT :limit
);
