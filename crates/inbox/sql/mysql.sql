-- The inbox of a participant in MySQL or MariaDB. What each statement is for, and in which order: docs/inbox.md.

-- name: table
CREATE TABLE IF NOT EXISTS amends_inbox (
    operation_key VARBINARY(513) NOT NULL PRIMARY KEY,
    operation     VARCHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    state         VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    action_key    VARBINARY(513),
    request_hash  VARBINARY(64),
    answer        MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    undone_by     VARBINARY(513),
    created_at    DATETIME(3) NOT NULL,
    keep_until    DATETIME(3) NOT NULL,
    KEY amends_inbox_keep_until (keep_until),
    CHECK (length(operation_key) BETWEEN 1 AND 512),
    CHECK (operation IN ('action', 'compensation')),
    CHECK (state IN ('running', 'done', 'rejected', 'sealed')),
    CHECK ((operation = 'compensation') = (action_key IS NOT NULL)),
    CHECK (state <> 'sealed' OR operation = 'action'),
    CHECK ((state IN ('done', 'rejected')) = (answer IS NOT NULL))
) ENGINE = InnoDB;

-- name: take
INSERT INTO amends_inbox (operation_key, operation, state, action_key, request_hash, created_at, keep_until)
VALUES (?, ?, 'running', ?, ?, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) + INTERVAL ? SECOND);

-- name: seal
INSERT INTO amends_inbox (operation_key, operation, state, created_at, keep_until)
VALUES (?, 'action', 'sealed', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) + INTERVAL ? SECOND)
ON DUPLICATE KEY UPDATE keep_until = GREATEST(keep_until, VALUES(keep_until));

-- name: read
SELECT operation, state, action_key, request_hash, answer, undone_by
FROM amends_inbox WHERE operation_key = ? LOCK IN SHARE MODE;

-- name: settle
UPDATE amends_inbox SET state = ?, answer = ?
WHERE operation_key = ? AND state = 'running';

-- name: undone
UPDATE amends_inbox SET undone_by = ?
WHERE operation_key = ? AND state = 'done' AND undone_by IS NULL;

-- name: query
SELECT operation, state, action_key, request_hash, answer, undone_by
FROM amends_inbox WHERE operation_key = ?;

-- name: due
SELECT operation_key FROM amends_inbox
WHERE keep_until < UTC_TIMESTAMP(3) ORDER BY keep_until LIMIT ?;

-- name: forget
DELETE FROM amends_inbox WHERE operation_key = ? AND keep_until < UTC_TIMESTAMP(3);
