-- Sagas that callers begin in transactions of their own, by any program that opens this file:
--     INSERT INTO amends_submission (saga, id, input) VALUES ('order', 'order:789', '{"sku":"tea"}')
-- A row waits here until the engine has made a saga of it, which removes it in the same transaction. The triggers run in the caller's program,
-- with its SQLite, from version 3.38 on; messages are fixed texts, because older versions can raise no others.

CREATE TABLE amends_submission (
    -- Never given twice: what an engine says of one row must not reach another.
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    saga         TEXT    NOT NULL,
    id           TEXT    NOT NULL UNIQUE,
    input        TEXT    NOT NULL,
    submitted_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    -- When the engine is to try it; NULL: it was refused, and waits for a person.
    due_at       INTEGER DEFAULT 0,
    tries        INTEGER NOT NULL DEFAULT 0,
    reason       TEXT
) STRICT;
CREATE INDEX amends_submission_due ON amends_submission (due_at, number) WHERE due_at IS NOT NULL;

-- One trigger, because of several it is not defined which is first.
CREATE TRIGGER amends_submission_check BEFORE INSERT ON amends_submission BEGIN
    -- What no engine could take.
    SELECT RAISE(ABORT, 'amends: saga is no name of a definition')
    WHERE NEW.saga NOT GLOB '[a-z]*' OR NEW.saga GLOB '*[^a-z0-9_-]*' OR length(NEW.saga) > 64
        OR instr(CAST(NEW.saga AS BLOB), x'00') > 0;
    SELECT RAISE(ABORT, 'amends: id is no id of a saga, which has 1 to 256 bytes and no control characters')
    WHERE length(CAST(NEW.id AS BLOB)) NOT BETWEEN 1 AND 256 OR instr(CAST(NEW.id AS BLOB), x'00') > 0
        OR NEW.id GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*';
    SELECT RAISE(ABORT, 'amends: input has more than 1048576 bytes') WHERE length(CAST(NEW.input AS BLOB)) > 1048576;
    SELECT RAISE(ABORT, 'amends: input is no JSON') WHERE NOT json_valid(NEW.input);
    -- What it is read as would end there. A backslash that stands for itself is not the beginning of one.
    SELECT RAISE(ABORT, 'amends: input has the character \u0000, which not every database can hold')
    WHERE instr(replace(NEW.input, '\\', ''), '\u0000') > 0;
    SELECT RAISE(ABORT, 'amends: input is nested more than 64 deep, or has two members of the same name in an object, or a reserved name')
    WHERE EXISTS (
        WITH RECURSIVE node (depth, kind, text) AS (
            SELECT 1, json_type(NEW.input), NEW.input WHERE json_type(NEW.input) IN ('object', 'array')
            UNION ALL
            SELECT node.depth + 1, member.type, member.value FROM node, json_each(node.text) member
            WHERE member.type IN ('object', 'array') AND node.depth <= 64
        )
        SELECT 1 FROM node WHERE depth > 64 OR (kind = 'object' AND (
            (SELECT count(*) > count(DISTINCT member.key) FROM json_each(node.text) member)
            OR EXISTS (SELECT 1 FROM json_each(node.text) member WHERE member.key GLOB '$serde_json::private::*')))
    );

    -- The same id again: with the same definition name and input nothing happens, with others it is an error. Equal trees are the same,
    -- numbers by their text. Of a saga whose journal retention has removed only the name is compared here; the engine compares the rest.
    SELECT RAISE(ABORT, 'amends: this id was submitted before, and refused; its row in amends_submission says why')
    FROM amends_submission WHERE id = NEW.id AND due_at IS NULL AND NOT EXISTS (SELECT 1 FROM saga WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'amends: this id exists with another definition or input; a business id names one operation')
    WHERE EXISTS (SELECT 1 FROM amends_submission WHERE id = NEW.id AND saga <> NEW.saga AND due_at IS NOT NULL)
        OR EXISTS (SELECT 1 FROM saga WHERE id = NEW.id AND saga <> NEW.saga)
        OR EXISTS (
        -- Every value of both trees: where it is, what it is, and its text.
        WITH RECURSIVE known (text) AS (
            -- Most often it is the same text.
            SELECT text FROM (
                SELECT input AS text FROM amends_submission WHERE id = NEW.id AND due_at IS NOT NULL
                UNION ALL
                SELECT CASE WHEN json_valid(CAST(entry.body AS TEXT)) THEN CAST(entry.body AS TEXT) -> '$.submitted.input' END
                FROM saga JOIN entry ON entry.saga = saga.rowid AND entry.seq = 1 WHERE saga.id = NEW.id
            ) WHERE text NOT IN (NEW.input, json(NEW.input))
        ), node (of, path, kind, text, leaf) AS (
            SELECT side.of, '', json_type(side.text), side.text,
                CASE json_type(side.text) WHEN 'text' THEN side.text ->> '$' WHEN 'integer' THEN side.text -> '$' WHEN 'real' THEN side.text -> '$' END
            FROM (SELECT 'given' AS of, NEW.input AS text UNION ALL SELECT 'known', text FROM known) side
            WHERE EXISTS (SELECT 1 FROM known)
            UNION ALL
            SELECT node.of, node.path || '/' || hex(member.key), member.type,
                CASE WHEN member.type IN ('object', 'array') THEN member.value END,
                CASE member.type WHEN 'text' THEN member.value
                    WHEN 'integer' THEN node.text -> member.fullkey WHEN 'real' THEN node.text -> member.fullkey END
            FROM node, json_each(node.text) member WHERE node.kind IN ('object', 'array')
        ), value (of, path, kind, leaf) AS MATERIALIZED (
            -- A number whose text cannot be found is equal to none.
            SELECT of, path, kind, CASE
                WHEN kind NOT IN ('integer', 'real') THEN leaf
                WHEN leaf IS NULL THEN hex(randomblob(16))
                WHEN lower(leaf) GLOB '*e[0-9]*' THEN replace(lower(leaf), 'e', 'e+')
                ELSE lower(leaf) END
            FROM node
        )
        SELECT 1 WHERE EXISTS (SELECT 1 FROM value WHERE of = 'known') AND (
            EXISTS (SELECT 1 FROM known WHERE instr(replace(text, '\\', ''), '\u0000') > 0)
            OR (SELECT count(*) FROM value WHERE of = 'known') <> (SELECT count(*) FROM value WHERE of = 'given')
            OR EXISTS (
                SELECT path, kind, leaf FROM value WHERE of = 'given' EXCEPT SELECT path, kind, leaf FROM value WHERE of = 'known'))
    );
    -- Nothing is written. Where nothing could be compared the row is, for the engine to look at.
    SELECT RAISE(IGNORE)
    WHERE EXISTS (SELECT 1 FROM amends_submission WHERE id = NEW.id AND due_at IS NOT NULL)
        OR EXISTS (
            SELECT 1 FROM saga JOIN entry ON entry.saga = saga.rowid AND entry.seq = 1
            WHERE saga.id = NEW.id AND json_valid(CAST(entry.body AS TEXT))
                AND CAST(entry.body AS TEXT) -> '$.submitted.input' IS NOT NULL);
END;
