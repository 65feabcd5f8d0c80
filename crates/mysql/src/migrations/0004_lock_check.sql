-- Checks a fencing token inside the caller's transaction, and keeps the lock from being taken by anybody else until that has ended. An error
-- if the token is not that of the last lease, or was released: roll back then. A lease whose time is over, and that nobody has taken since,
-- passes: no other holder can have seen anything yet, and none will before the transaction has ended. What is read is what was committed
-- last, whatever the transaction sees otherwise.

DROP PROCEDURE IF EXISTS amends_check_lock;

CREATE PROCEDURE amends_check_lock(p_name TEXT CHARACTER SET utf8mb4, p_token BIGINT UNSIGNED)
READS SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_found BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_words VARCHAR(120) CHARACTER SET utf8mb4;
    SELECT COUNT(*) INTO v_found FROM amends_lock
    WHERE name = CAST(p_name AS BINARY) AND token = p_token AND ended IS NULL LOCK IN SHARE MODE;
    IF v_found = 0 THEN
        SET v_words = CONCAT('amends: the lock ', LEFT(COALESCE(p_name, 'NULL'), 40), ' is not held under token ', COALESCE(p_token, 'NULL'));
        SIGNAL SQLSTATE '55000' SET MESSAGE_TEXT = v_words;
    END IF;
END;
