-- Checks a fencing token inside the caller's transaction, and keeps the lock from being taken by anybody else until that has ended. Raises if
-- the token is not that of the last lease, or was released: what the transaction wrote is then not committed. A lease whose time is over, and
-- that nobody has taken since, passes: no other holder can have seen anything yet, and none will before the transaction has ended.
CREATE FUNCTION amends.check_lock(name text, token bigint) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM amends.lock l WHERE l.name = check_lock.name AND l.token = check_lock.token AND l.ended IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lock % is not held under token %', quote_literal(left(check_lock.name, 300)), check_lock.token
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Roll back and stop: somebody else has it, or it was released, or it is kept in another store.';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION amends.check_lock(text, bigint) FROM PUBLIC
