-- Sagas that callers begin in transactions of their own. A row waits here, from the caller's commit on, until an engine has made a saga of
-- it, which removes it in the same transaction. Rows are written by `amends.submit` alone: callers need no right on any table.

CREATE TABLE amends.submission (
    id           text   COLLATE "C" PRIMARY KEY,
    number       bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    saga         text   COLLATE "C" NOT NULL,
    -- The type that keeps the text of numbers.
    input        json   NOT NULL,
    fingerprint  text   COLLATE "C" NOT NULL,
    submitted_by text   NOT NULL,
    submitted_at bigint NOT NULL,
    -- When an engine is to try it; NULL: it was refused, and waits for a person.
    due_at       bigint,
    tries        bigint NOT NULL DEFAULT 0,
    reason       text
)
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX submission_due ON amends.submission (due_at, number) WHERE due_at IS NOT NULL;

-- The one text that equal trees have in common, to the byte as `amends_core::json::canonical` writes it: no spaces, members sorted by the
-- bytes of their names, numbers as they were written, but for their exponent (1E5 is 1e+5). Raises what no engine would take.
CREATE FUNCTION amends.canonical(value json, depth_max integer) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    kind text := json_typeof(value);
    made text;
    is_twice boolean;
    is_reserved boolean;
BEGIN
    IF kind IN ('object', 'array') AND depth_max = 0 THEN
        RAISE EXCEPTION 'the input is nested more than 64 deep' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    CASE kind
    WHEN 'object' THEN
        SELECT coalesce(string_agg(to_json(m.key)::text || ':' || amends.canonical(m.value, depth_max - 1), ',' ORDER BY m.key COLLATE "C"), ''),
            count(*) > count(DISTINCT m.key COLLATE "C"),
            bool_or(starts_with(m.key, '$serde_json::private::'))
        INTO made, is_twice, is_reserved FROM json_each(value) m;
        IF is_twice THEN
            RAISE EXCEPTION 'the input has an object with two members of the same name' USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF is_reserved THEN
            RAISE EXCEPTION 'the input has a member whose name begins with $serde_json::private::, which is reserved'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN '{' || made || '}';
    WHEN 'array' THEN
        SELECT coalesce(string_agg(amends.canonical(e.value, depth_max - 1), ',' ORDER BY e.nth), '')
        INTO made FROM json_array_elements(value) WITH ORDINALITY e (value, nth);
        RETURN '[' || made || ']';
    WHEN 'string' THEN
        RETURN to_json(value #>> '{}')::text;
    WHEN 'number' THEN
        RETURN regexp_replace(lower(btrim(value #>> '{}', E' \t\n\r')), 'e(?=[0-9])', 'e+');
    WHEN 'boolean' THEN
        RETURN btrim(value #>> '{}', E' \t\n\r');
    ELSE
        RETURN 'null';
    END CASE;
END
$$;
REVOKE ALL ON FUNCTION amends.canonical(json, integer) FROM PUBLIC;

-- Begins a saga as part of the caller's transaction. True: it is new; false: it is known, with the same definition name and input. Anything
-- else is raised, so that the transaction does not commit. It runs with the rights of the engine's user, whose tables these are.
CREATE FUNCTION amends.submit(saga text, id text, input json) RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    mine text;
    there record;
    is_known boolean := false;
BEGIN
    IF submit.saga IS NULL OR submit.id IS NULL OR submit.input IS NULL THEN
        RAISE EXCEPTION 'amends.submit needs a definition''s name, an id and an input; one of them is NULL'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF submit.saga !~ '^[a-z][a-z0-9_-]{0,63}$' THEN
        RAISE EXCEPTION '% is no name of a definition', quote_literal(left(submit.saga, 100))
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It is what the definition calls `saga`: a to z, digits, _ and -.';
    END IF;
    IF octet_length(submit.id) NOT BETWEEN 1 AND 256 OR submit.id ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RAISE EXCEPTION '% is no id of a saga', quote_literal(left(submit.id, 300))
            USING ERRCODE = 'invalid_parameter_value', HINT = 'An id has 1 to 256 bytes and no control characters.';
    END IF;
    IF octet_length(submit.input::text) > 1048576 THEN
        RAISE EXCEPTION 'the input of % has more than 1048576 bytes', quote_literal(submit.id)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Keep documents elsewhere, and submit where they are.';
    END IF;
    mine := encode(sha256(convert_to(submit.saga, 'UTF8') || '\x00'::bytea || convert_to(amends.canonical(submit.input, 64), 'UTF8')), 'hex');
    FOR attempt IN 1..10 LOOP
        -- Whoever comes second waits here until the first has committed or rolled back.
        INSERT INTO amends.submission (id, saga, input, fingerprint, submitted_by, submitted_at, due_at)
        VALUES (submit.id, submit.saga, submit.input, mine, session_user, amends.now_ms(), amends.now_ms())
        ON CONFLICT (id) DO NOTHING;
        IF FOUND THEN
            -- Looked for after the row is there: an engine that makes a saga of a row removes it in the same transaction.
            SELECT s.fingerprint INTO there FROM amends.saga s WHERE s.id = submit.id;
            IF NOT FOUND THEN
                -- A notification makes commits wait for each other, and forbids PREPARE TRANSACTION. Where others wait already an engine is
                -- on its way; and it looks by itself, twice a second.
                IF coalesce(current_setting('amends.notify', true), '') <> 'off' AND NOT EXISTS (
                    SELECT FROM amends.submission w WHERE w.due_at <= amends.now_ms() AND w.id <> submit.id)
                THEN
                    PERFORM pg_notify('amends_submission', '');
                END IF;
                RETURN true;
            END IF;
            DELETE FROM amends.submission w WHERE w.id = submit.id;
            is_known := true;
        ELSE
            SELECT w.fingerprint, CASE WHEN w.due_at IS NULL THEN w.reason END AS refused INTO there
            FROM amends.submission w WHERE w.id = submit.id;
            is_known := FOUND;
            IF is_known AND there.refused IS NOT NULL THEN
                -- Whoever submits what the saga of this id has is told of the saga, whatever else was refused.
                PERFORM FROM amends.saga s WHERE s.id = submit.id AND s.fingerprint = mine;
                IF FOUND THEN
                    RETURN false;
                END IF;
                RAISE EXCEPTION '% was submitted before, and refused: %', quote_literal(submit.id), there.refused
                    USING ERRCODE = 'unique_violation', HINT = 'See amends.submission; when it is settled, delete its row there.';
            END IF;
        END IF;
        IF is_known THEN
            -- Where a row still waits, the API may have been quicker than its commit, with another input: then the row will be refused.
            PERFORM FROM amends.saga s WHERE s.id = submit.id AND s.fingerprint <> mine;
            IF there.fingerprint = mine AND NOT FOUND THEN
                RETURN false;
            END IF;
            RAISE EXCEPTION '% exists with another definition or input', quote_literal(submit.id)
                USING ERRCODE = 'unique_violation', HINT = 'A business id names one operation: take another id, or submit the same input.';
        END IF;
        -- It was there, and an engine has just made a saga of it.
    END LOOP;
    RAISE EXCEPTION '% is being moved by others; try the transaction again', quote_literal(submit.id)
        USING ERRCODE = 'serialization_failure';
END
$$;
REVOKE ALL ON FUNCTION amends.submit(text, text, json) FROM PUBLIC
