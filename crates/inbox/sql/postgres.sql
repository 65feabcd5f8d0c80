-- The inbox of a participant in PostgreSQL. What each statement is for, and in which order: docs/inbox.md.

-- name: table
CREATE TABLE IF NOT EXISTS amends_inbox (
    operation_key text COLLATE "C" PRIMARY KEY CHECK (octet_length(operation_key) BETWEEN 1 AND 512),
    operation     text NOT NULL CHECK (operation IN ('action', 'compensation')),
    state         text NOT NULL CHECK (state IN ('running', 'done', 'rejected', 'sealed')),
    action_key    text COLLATE "C",
    request_hash  bytea,
    answer        text,
    undone_by     text COLLATE "C",
    created_at    timestamptz NOT NULL DEFAULT now(),
    keep_until    timestamptz NOT NULL,
    CHECK ((operation = 'compensation') = (action_key IS NOT NULL)),
    CHECK (state <> 'sealed' OR operation = 'action'),
    CHECK ((state IN ('done', 'rejected')) = (answer IS NOT NULL))
);

-- name: index
CREATE INDEX IF NOT EXISTS amends_inbox_keep_until ON amends_inbox (keep_until);

-- name: take
INSERT INTO amends_inbox (operation_key, operation, state, action_key, request_hash, keep_until)
VALUES ($1, $2, 'running', $3, $4, now() + $5::bigint * interval '1 second')
ON CONFLICT (operation_key) DO NOTHING;

-- name: seal
INSERT INTO amends_inbox (operation_key, operation, state, keep_until)
VALUES ($1, 'action', 'sealed', now() + $2::bigint * interval '1 second')
ON CONFLICT (operation_key) DO UPDATE
SET keep_until = greatest(amends_inbox.keep_until, excluded.keep_until);

-- name: read
SELECT operation, state, action_key, request_hash, answer, undone_by
FROM amends_inbox WHERE operation_key = $1;

-- name: settle
UPDATE amends_inbox SET state = $2, answer = $3
WHERE operation_key = $1 AND state = 'running';

-- name: undone
UPDATE amends_inbox SET undone_by = $2
WHERE operation_key = $1 AND state = 'done' AND undone_by IS NULL;

-- name: query
SELECT operation, state, action_key, request_hash, answer, undone_by
FROM amends_inbox WHERE operation_key = $1;

-- name: forget
DELETE FROM amends_inbox
WHERE keep_until < now() AND operation_key IN (
    SELECT operation_key FROM amends_inbox
    WHERE keep_until < now() ORDER BY keep_until LIMIT $1 FOR UPDATE SKIP LOCKED
);
