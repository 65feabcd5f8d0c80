-- Lease locks. A row outlives its lease, because tokens never go back; it is removed a week after its last use, and then
-- `amends_lock_floor` is at least as high as its token. Times are milliseconds on this server's clock.

CREATE TABLE IF NOT EXISTS amends_lock (
    name         VARBINARY(256)  NOT NULL PRIMARY KEY,
    token        BIGINT UNSIGNED NOT NULL,
    owner        VARBINARY(256)  NOT NULL,
    label        VARBINARY(256)  NOT NULL,
    since        BIGINT          NOT NULL,
    expires_at   BIGINT          NOT NULL,
    ended        VARBINARY(64),
    last_token   BIGINT UNSIGNED,
    last_outcome VARBINARY(64),
    last_kind    VARBINARY(64),
    last_text    VARBINARY(2048),
    last_at      BIGINT,
    KEY lock_expired (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS amends_lock_floor (
    one   TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    value BIGINT UNSIGNED  NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT IGNORE INTO amends_lock_floor (one, value) VALUES (1, 0);
