-- Lease locks. A row outlives its lease, because tokens never go back; it is removed a week after its last use, and then
-- `lock_floor` is at least as high as its token. Times are milliseconds on this server's clock.

CREATE TABLE amends.lock (
    name         text   COLLATE "C" PRIMARY KEY,
    token        bigint NOT NULL,
    owner        text   COLLATE "C" NOT NULL,
    label        text   COLLATE "C" NOT NULL,
    since        bigint NOT NULL,
    expires_at   bigint NOT NULL,
    ended        text   COLLATE "C",
    last_token   bigint,
    last_outcome text   COLLATE "C",
    last_kind    text   COLLATE "C",
    last_text    text   COLLATE "C",
    last_at      bigint
)
WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lock_expired ON amends.lock (expires_at);

CREATE TABLE amends.lock_floor (
    value bigint NOT NULL
);
INSERT INTO amends.lock_floor (value) VALUES (0);
