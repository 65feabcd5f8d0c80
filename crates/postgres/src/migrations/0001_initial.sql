-- Rows of sagas are numbered in order of arrival. What is in flight is owned by a node and only appends to the journal; the
-- other columns of its row are written when it is submitted, parked, taken over, and when it ends. All texts are compared byte by byte.

CREATE TABLE amends.saga (
    rowid              bigint  PRIMARY KEY,
    id                 text    COLLATE "C" NOT NULL UNIQUE,
    fingerprint        text    COLLATE "C" NOT NULL,
    saga               text    COLLATE "C" NOT NULL,
    definition_version bigint  NOT NULL,
    digest             text    COLLATE "C" NOT NULL,
    status             text    COLLATE "C" NOT NULL,
    business_state     text    COLLATE "C" NOT NULL,
    seq                bigint  NOT NULL,
    step               text    COLLATE "C",
    operation          text    COLLATE "C",
    error_class        text    COLLATE "C",
    reason             text    COLLATE "C",
    contradictions     bigint  NOT NULL,
    overdue            boolean NOT NULL,
    created_at         bigint  NOT NULL,
    updated_at         bigint  NOT NULL,
    ended_at           bigint,
    due_at             bigint,
    owner_node         text    COLLATE "C",
    owner_epoch        bigint,
    pruned             boolean NOT NULL DEFAULT false
)
-- Rows are rewritten a few times each. Dead ones are cleared when there are a few thousand, not when a fifth of all is dead: the partial
-- indexes are read from their dead end.
WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE SEQUENCE amends.saga_rowid;

-- What is due costs what is due: sagas that are not waiting, or wait for nothing, are in neither of these.
CREATE INDEX saga_due ON amends.saga (due_at, rowid) WHERE owner_epoch IS NULL AND due_at IS NOT NULL;
CREATE INDEX saga_owned ON amends.saga (owner_epoch, rowid) WHERE owner_epoch IS NOT NULL;
CREATE INDEX saga_status ON amends.saga (status, rowid);
CREATE INDEX saga_ended ON amends.saga (ended_at)
    WHERE ended_at IS NOT NULL AND NOT pruned AND owner_epoch IS NULL AND due_at IS NULL;
CREATE INDEX saga_contradicted ON amends.saga (rowid) WHERE contradictions > 0;

-- Appended to, never updated; retention alone deletes. (saga, seq) is the conditional transition.
CREATE TABLE amends.entry (
    saga  bigint  NOT NULL,
    seq   bigint  NOT NULL,
    nonce bigint  NOT NULL,
    at    bigint  NOT NULL,
    keep  boolean NOT NULL,
    body  bytea   NOT NULL,
    PRIMARY KEY (saga, seq)
)
-- Insertions count too, so that pages are marked as visible and as needing no more look.
WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Names are bytes: they come from inputs, and may hold what a text may not.
CREATE TABLE amends.claim (
    name  bytea  PRIMARY KEY,
    saga  bigint NOT NULL,
    since bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX claim_saga ON amends.claim (saga);

CREATE TABLE amends.mail (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    saga      bigint NOT NULL,
    input_id  text   COLLATE "C" NOT NULL,
    body      bytea  NOT NULL,
    posted_at bigint NOT NULL,
    answer    bytea,
    UNIQUE (saga, input_id)
)
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX mail_waiting ON amends.mail (saga, id) WHERE answer IS NULL;
CREATE INDEX mail_answered ON amends.mail (posted_at) WHERE answer IS NOT NULL;

CREATE TABLE amends.definition (
    name       text   COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    digest     text   COLLATE "C" NOT NULL,
    tree       text   COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (name, version)
);
CREATE INDEX definition_digest ON amends.definition (digest);

CREATE TABLE amends.node (
    name       text   COLLATE "C" PRIMARY KEY,
    epoch      bigint NOT NULL UNIQUE,
    expires_at bigint NOT NULL
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The largest epoch there was. A row rather than a sequence: two that join one after the other must not end the other way round.
CREATE TABLE amends.epoch (
    value bigint NOT NULL
);
INSERT INTO amends.epoch (value) VALUES (0);

-- Always empty. What is written to it and removed again shows whether a full disk has room again.
CREATE TABLE amends.probe (
    body bytea NOT NULL
);

-- Milliseconds since 1970 on this server's clock, which leases and due times are measured on.
CREATE FUNCTION amends.now_ms() RETURNS bigint LANGUAGE sql STABLE
    AS $$ SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint $$;
