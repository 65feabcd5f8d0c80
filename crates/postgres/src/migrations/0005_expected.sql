-- A batch of which everything is as its engine expects is one statement: this looks, locks, and writes. Where anything is not so, it has written
-- nothing and gives NULL; the engine then looks for itself, in a transaction of several statements, and decides item by item.

CREATE TYPE amends.expected_move AS (saga bigint, id text, after bigint);
CREATE TYPE amends.expected_saga AS (place bigint, id text, fingerprint text, saga text, definition_version bigint, digest text, status text,
    business_state text, seq bigint, step text, operation text, error_class text, reason text, contradictions bigint, overdue boolean,
    created_at bigint, updated_at bigint, ended_at bigint, due_at bigint, owner_node text, owner_epoch bigint);
CREATE TYPE amends.expected_entry AS (saga bigint, seq bigint, nonce bigint, at bigint, keep boolean, body bytea);
CREATE TYPE amends.expected_claim AS (name bytea, saga bigint, since bigint);
CREATE TYPE amends.expected_row AS (rowid bigint, status text, business_state text, seq bigint, step text, operation text, error_class text,
    reason text, contradictions bigint, overdue boolean, updated_at bigint, ended_at bigint, due_at bigint, owner_node text, owner_epoch bigint);

-- `locked` and `appended`: sagas that are there, with the number of their last entry; rows of the former are locked in the order of their numbers.
-- Each gets another entry, so that the primary key tells if somebody was quicker. `let_go`: those that must have no mail. `ids`, `names`: what must
-- be free. Sagas to be made are called -1, -2, … where they have no number yet; their numbers are given, in the order of their places.
--
-- All statements seek a few rows by their keys: to think of a plan for each time would cost more than to run it, and one that was made while a
-- table was small must not read all of it later.
CREATE FUNCTION amends.commit_expected(locked amends.expected_move[], appended amends.expected_move[], let_go bigint[], ids text[], names bytea[],
    sagas amends.expected_saga[], entries amends.expected_entry[], released bigint[], claims amends.expected_claim[], rows amends.expected_row[])
RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    found_count bigint;
    is_other boolean;
    has_arrived boolean;
    adopted bigint[];
    numbers bigint[] := '{}';
BEGIN
    IF cardinality(locked) > 0 THEN
        -- What the statements behind it see comes after these locks.
        PERFORM FROM unnest(locked) m
            JOIN amends.saga s ON s.rowid = m.saga AND s.id = m.id AND s.seq <= m.after
            JOIN amends.entry e ON e.saga = m.saga AND e.seq = m.after
        ORDER BY m.saga FOR NO KEY UPDATE OF s;
        GET DIAGNOSTICS found_count = ROW_COUNT;
        IF found_count <> cardinality(locked) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF cardinality(appended) > 0 THEN
        PERFORM FROM unnest(appended) m
            JOIN amends.saga s ON s.rowid = m.saga AND s.id = m.id AND s.seq <= m.after
            JOIN amends.entry e ON e.saga = m.saga AND e.seq = m.after;
        GET DIAGNOSTICS found_count = ROW_COUNT;
        IF found_count <> cardinality(appended) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF cardinality(let_go) > 0 AND EXISTS (SELECT FROM amends.mail m WHERE m.saga = ANY(let_go) AND m.answer IS NULL) THEN
        RETURN NULL;
    END IF;
    IF cardinality(ids) > 0 THEN
        SELECT EXISTS (SELECT FROM amends.claim c WHERE c.name = ANY(names)) OR EXISTS (SELECT FROM amends.saga s WHERE s.id = ANY(ids)),
            EXISTS (SELECT FROM amends.submission w WHERE w.id = ANY(ids) AND w.due_at IS NOT NULL)
        INTO is_other, has_arrived;
        IF is_other THEN
            RETURN NULL;
        END IF;
        IF has_arrived THEN
            SELECT array_agg(w.number), bool_or(w.fingerprint <> n.fingerprint) INTO adopted, is_other
            FROM unnest(sagas) n JOIN amends.submission w ON w.id = n.id AND w.due_at IS NOT NULL;
            IF is_other THEN
                RETURN NULL;
            END IF;
        END IF;
        SELECT array_agg(nextval('amends.saga_rowid')) INTO numbers FROM generate_series(1, cardinality(ids));
        INSERT INTO amends.saga (rowid, id, fingerprint, saga, definition_version, digest, status, business_state, seq, step, operation,
            error_class, reason, contradictions, overdue, created_at, updated_at, ended_at, due_at, owner_node, owner_epoch)
        SELECT numbers[n.place], n.id, n.fingerprint, n.saga, n.definition_version, n.digest, n.status, n.business_state, n.seq, n.step, n.operation,
            n.error_class, n.reason, n.contradictions, n.overdue, n.created_at, n.updated_at, n.ended_at, n.due_at, n.owner_node, n.owner_epoch
        FROM unnest(sagas) n;
        IF adopted IS NOT NULL THEN
            DELETE FROM amends.submission w WHERE w.number = ANY(adopted);
        END IF;
    END IF;
    INSERT INTO amends.entry (saga, seq, nonce, at, keep, body)
    SELECT CASE WHEN e.saga < 0 THEN numbers[-e.saga] ELSE e.saga END, e.seq, e.nonce, e.at, e.keep, e.body FROM unnest(entries) e;
    IF cardinality(released) > 0 THEN
        DELETE FROM amends.claim c WHERE c.saga = ANY(released);
    END IF;
    IF cardinality(claims) > 0 THEN
        INSERT INTO amends.claim (name, saga, since) SELECT c.name, numbers[-c.saga], c.since FROM unnest(claims) c;
    END IF;
    IF cardinality(rows) > 0 THEN
        UPDATE amends.saga s SET status = u.status, business_state = u.business_state, seq = greatest(s.seq, u.seq), step = u.step,
            operation = u.operation, error_class = u.error_class, reason = u.reason, contradictions = u.contradictions, overdue = u.overdue,
            updated_at = u.updated_at, ended_at = u.ended_at, due_at = u.due_at, owner_node = u.owner_node, owner_epoch = u.owner_epoch,
            pruned = false
        FROM unnest(rows) u WHERE s.rowid = u.rowid;
    END IF;
    RETURN numbers;
END
$$;
REVOKE ALL ON FUNCTION amends.commit_expected(amends.expected_move[], amends.expected_move[], bigint[], text[], bytea[], amends.expected_saga[],
    amends.expected_entry[], bigint[], amends.expected_claim[], amends.expected_row[]) FROM PUBLIC
