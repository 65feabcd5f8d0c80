-- A batch of which everything is as its engine expects is one statement: this looks, locks, and writes. Where anything is not so, it has written
-- nothing and gives NULL; the engine then looks for itself, in a transaction of several statements, and decides item by item.

CREATE TYPE amends.expected_move AS (saga bigint, id text, after bigint);
CREATE TYPE amends.expected_saga AS (place bigint, id text, fingerprint text, saga text, definition_version bigint, digest text, status text,
    business_state text, seq bigint, step text, operation text, error_class text, reason text, contradictions bigint, overdue boolean,
    created_at bigint, updated_at bigint, ended_at bigint, due_at bigint, owner_node text, owner_epoch bigint);
CREATE TYPE amends.expected_entry AS (saga bigint, seq bigint, nonce bigint, at bigint, keep boolean, body bytea);
CREATE TYPE amends.expected_claim AS (name bytea, saga bigint, since bigint);
CREATE TYPE amends.expected_row AS (rowid bigint, id text, after bigint, status text, business_state text, seq bigint, step text, operation text,
    error_class text, reason text, contradictions bigint, overdue boolean, updated_at bigint, ended_at bigint, due_at bigint, owner_node text,
    owner_epoch bigint);

-- `appended`: sagas that get an entry and nothing else, with the number of their last one; `rows`: those whose row is written too, in the order
-- of their numbers, in which they are locked. Each gets another entry, so that the primary key tells if somebody was quicker. `let_go`: those
-- that must have no mail. `ids`, `names`: what must be free. Sagas to be made are called -1, -2, … where they have no number yet; their numbers
-- are given, in the order of their places. What is not as expected when rows are locked is raised, as a race.
--
-- All statements seek a few rows by their keys: to think of a plan for each time would cost more than to run it, and one that was made while a
-- table was small must not read all of it later. It has the rights of its caller alone, so that everybody may call it.
CREATE FUNCTION amends.commit_expected(appended amends.expected_move[], rows amends.expected_row[], let_go bigint[], ids text[], names bytea[],
    sagas amends.expected_saga[], entries amends.expected_entry[], released bigint[], claims amends.expected_claim[])
RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    found_count bigint;
    is_expected boolean;
    has_arrived boolean;
    adopted bigint[];
    numbers bigint[] := '{}';
BEGIN
    SELECT (SELECT count(*) FROM unnest(appended) m
                WHERE (SELECT s.id = m.id AND s.seq <= m.after FROM amends.saga s WHERE s.rowid = m.saga)
                    AND (SELECT true FROM amends.entry e WHERE e.saga = m.saga AND e.seq = m.after)) = cardinality(appended)
            AND NOT EXISTS (SELECT FROM amends.claim c WHERE c.name = ANY(names))
            AND NOT EXISTS (SELECT FROM amends.saga s WHERE s.id = ANY(ids)),
        EXISTS (SELECT FROM amends.submission w WHERE w.id = ANY(ids) AND w.due_at IS NOT NULL)
    INTO is_expected, has_arrived;
    IF has_arrived THEN
        SELECT array_agg(w.number), is_expected AND coalesce(bool_and(w.fingerprint = n.fingerprint), true) INTO adopted, is_expected
        FROM unnest(sagas) n JOIN amends.submission w ON w.id = n.id AND w.due_at IS NOT NULL;
    END IF;
    IF NOT is_expected THEN
        RETURN NULL;
    END IF;
    IF cardinality(rows) > 0 THEN
        UPDATE amends.saga s SET status = u.status, business_state = u.business_state, seq = greatest(s.seq, u.seq), step = u.step,
            operation = u.operation, error_class = u.error_class, reason = u.reason, contradictions = u.contradictions, overdue = u.overdue,
            updated_at = u.updated_at, ended_at = u.ended_at, due_at = u.due_at, owner_node = u.owner_node, owner_epoch = u.owner_epoch,
            pruned = false
        FROM unnest(rows) u
        WHERE s.rowid = u.rowid AND s.id = u.id AND s.seq <= u.after
            AND (SELECT true FROM amends.entry e WHERE e.saga = u.rowid AND e.seq = u.after);
        GET DIAGNOSTICS found_count = ROW_COUNT;
        -- Whoever posts mail locks the saga too: only now is it seen.
        IF found_count <> cardinality(rows) OR EXISTS (SELECT FROM amends.mail m WHERE m.saga = ANY(let_go) AND m.answer IS NULL) THEN
            RAISE EXCEPTION 'a saga of the batch has moved, or has mail' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF cardinality(ids) > 0 THEN
        SELECT array_agg(nextval('amends.saga_rowid')) INTO numbers FROM generate_series(1, cardinality(ids));
        INSERT INTO amends.saga (rowid, id, fingerprint, saga, definition_version, digest, status, business_state, seq, step, operation,
            error_class, reason, contradictions, overdue, created_at, updated_at, ended_at, due_at, owner_node, owner_epoch)
        SELECT numbers[n.place], n.id, n.fingerprint, n.saga, n.definition_version, n.digest, n.status, n.business_state, n.seq, n.step, n.operation,
            n.error_class, n.reason, n.contradictions, n.overdue, n.created_at, n.updated_at, n.ended_at, n.due_at, n.owner_node, n.owner_epoch
        FROM unnest(sagas) n;
    END IF;
    IF has_arrived THEN
        DELETE FROM amends.submission w WHERE w.number = ANY(adopted);
    END IF;
    INSERT INTO amends.entry (saga, seq, nonce, at, keep, body)
    SELECT CASE WHEN e.saga < 0 THEN numbers[-e.saga] ELSE e.saga END, e.seq, e.nonce, e.at, e.keep, e.body FROM unnest(entries) e;
    IF cardinality(released) > 0 THEN
        DELETE FROM amends.claim c WHERE c.saga = ANY(released);
    END IF;
    IF cardinality(claims) > 0 THEN
        INSERT INTO amends.claim (name, saga, since) SELECT c.name, numbers[-c.saga], c.since FROM unnest(claims) c;
    END IF;
    RETURN numbers;
END
$$
