-- Rows of sagas are numbered in order of arrival. What is in flight is owned by a node and only appends to the journal; the other columns
-- of its row are written when it is submitted, parked, taken over, and when it ends. All texts are bytes, compared byte by byte.
-- There are no partial indexes here: what is looked for is in columns that are NULL for all other rows, which an index keeps apart.
-- Each statement can be run again: a definition of a table commits by itself.

CREATE TABLE IF NOT EXISTS amends_saga (
    rowid              BIGINT UNSIGNED  NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id                 VARBINARY(256)   NOT NULL,
    fingerprint        VARBINARY(1024)  NOT NULL,
    saga               VARBINARY(1024)  NOT NULL,
    definition_version BIGINT UNSIGNED  NOT NULL,
    digest             VARBINARY(1024)  NOT NULL,
    status             VARBINARY(256)   NOT NULL,
    business_state     VARBINARY(1024)  NOT NULL,
    seq                BIGINT UNSIGNED  NOT NULL,
    step               VARBINARY(1024),
    operation          VARBINARY(1024),
    error_class        VARBINARY(1024),
    reason             MEDIUMBLOB,
    contradictions     BIGINT UNSIGNED  NOT NULL,
    overdue            TINYINT UNSIGNED NOT NULL,
    created_at         BIGINT           NOT NULL,
    updated_at         BIGINT           NOT NULL,
    ended_at           BIGINT,
    due_at             BIGINT,
    owner_node         VARBINARY(1024),
    owner_epoch        BIGINT UNSIGNED,
    -- When it ended, if nothing is left to do but to remove its journal. Whoever changes owner or due time sees to it: a generated column
    -- makes each change of the row a fifth dearer.
    prune_at           BIGINT,
    UNIQUE KEY saga_id (id),
    -- What is nobody's and due: (NULL, due_at). What is owned: (owner_epoch, …). All that rests: (NULL, NULL).
    KEY saga_work (owner_epoch, due_at),
    KEY saga_status (status),
    KEY saga_prune (prune_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Appended to, never updated; retention alone deletes. (saga, seq) is the conditional transition.
CREATE TABLE IF NOT EXISTS amends_entry (
    saga  BIGINT UNSIGNED  NOT NULL,
    seq   BIGINT UNSIGNED  NOT NULL,
    nonce BIGINT UNSIGNED  NOT NULL,
    at    BIGINT           NOT NULL,
    keep  TINYINT UNSIGNED NOT NULL,
    body  LONGBLOB         NOT NULL,
    PRIMARY KEY (saga, seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS amends_claim (
    name  VARBINARY(768)  NOT NULL PRIMARY KEY,
    saga  BIGINT UNSIGNED NOT NULL,
    since BIGINT          NOT NULL,
    KEY claim_saga (saga)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS amends_mail (
    id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    saga         BIGINT UNSIGNED NOT NULL,
    input_id     VARBINARY(512)  NOT NULL,
    body         LONGBLOB        NOT NULL,
    posted_at    BIGINT          NOT NULL,
    answer       LONGBLOB,
    waiting_saga BIGINT UNSIGNED AS (IF(answer IS NULL, saga, NULL)) STORED,
    prune_at     BIGINT AS (IF(answer IS NULL, NULL, posted_at)) STORED,
    UNIQUE KEY mail_input (saga, input_id),
    KEY mail_waiting (waiting_saga),
    KEY mail_prune (prune_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS amends_definition (
    name       VARBINARY(512)  NOT NULL,
    version    BIGINT UNSIGNED NOT NULL,
    digest     VARBINARY(1024) NOT NULL,
    tree       LONGBLOB        NOT NULL,
    created_at BIGINT          NOT NULL,
    PRIMARY KEY (name, version),
    KEY definition_digest (digest)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS amends_node (
    name       VARBINARY(512)  NOT NULL PRIMARY KEY,
    epoch      BIGINT UNSIGNED NOT NULL,
    expires_at BIGINT          NOT NULL,
    UNIQUE KEY node_epoch (epoch)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The largest epoch there was, in one row.
CREATE TABLE IF NOT EXISTS amends_epoch (
    one   TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    value BIGINT UNSIGNED  NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT IGNORE INTO amends_epoch (one, value) VALUES (1, 0);

-- Always empty. What is written to it and removed again shows whether a full disk has room again.
CREATE TABLE IF NOT EXISTS amends_probe (
    id   BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    body LONGBLOB        NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
