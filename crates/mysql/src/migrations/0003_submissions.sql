-- Sagas that callers begin in transactions of their own. A row waits here, from the caller's commit on, until an engine has made a saga of
-- it, which removes it in the same transaction. Rows are written by `amends_submit` alone: callers need no right on any table.

CREATE TABLE IF NOT EXISTS amends_submission (
    number       BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id           VARBINARY(256)  NOT NULL,
    saga         VARBINARY(64)   NOT NULL,
    -- As it was written: types for JSON change the text of numbers.
    input        LONGBLOB        NOT NULL,
    submitted_by VARBINARY(512)  NOT NULL,
    submitted_at BIGINT          NOT NULL,
    -- When an engine is to try it; NULL: it was refused, and waits for a person.
    due_at       BIGINT,
    tries        BIGINT UNSIGNED NOT NULL DEFAULT 0,
    reason       MEDIUMBLOB,
    UNIQUE KEY submission_id (id),
    KEY submission_due (due_at, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

DROP PROCEDURE IF EXISTS amends_submit;

-- Begins a saga as part of the caller's transaction, with the rights of the engine's user, whose tables these are. The same id again does
-- nothing if definition name and input are the same, and else is an error. A function of the server for JSON reads numbers by their value,
-- so that inputs are compared by their text here, in MariaDB without regard to blanks between values; an engine compares trees, later. Whatever is checked is
-- checked before anything is written: an error of a procedure does not undo what it wrote. Parameters are of types that nothing is cut for.
CREATE PROCEDURE amends_submit(p_saga TEXT CHARACTER SET utf8mb4, p_id TEXT CHARACTER SET utf8mb4, p_input LONGTEXT CHARACTER SET utf8mb4)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_saga VARBINARY(64);
    DECLARE v_id VARBINARY(256);
    DECLARE v_input LONGBLOB DEFAULT CAST(p_input AS BINARY);
    DECLARE v_now BIGINT DEFAULT CAST(FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED);
    DECLARE v_words VARCHAR(120) CHARACTER SET utf8mb4;
    DECLARE v_saga_known VARBINARY(1024);
    DECLARE v_fingerprint VARBINARY(1024);
    DECLARE v_body LONGBLOB;
    DECLARE v_input_known LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_is_refused BOOLEAN DEFAULT FALSE;
    DECLARE v_reason MEDIUMBLOB;
    DECLARE v_is_twice BOOLEAN DEFAULT FALSE;
    DECLARE v_attempt INT DEFAULT 0;
    IF p_saga IS NULL OR p_id IS NULL OR p_input IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'amends: a definition''s name, an id and an input are needed; one of them is NULL';
    END IF;
    IF NOT p_saga COLLATE utf8mb4_bin REGEXP '^[a-z][a-z0-9_-]{0,63}$' OR LOCATE(CHAR(10), p_saga) > 0 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'amends: the first argument is no name of a definition: a to z, digits, _ and -';
    END IF;
    IF OCTET_LENGTH(p_id) NOT BETWEEN 1 AND 256 OR p_id REGEXP '[\\x{0000}-\\x{001f}\\x{007f}-\\x{009f}]' THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'amends: the second argument is no id: it has 1 to 256 bytes and no control characters';
    END IF;
    IF OCTET_LENGTH(p_input) > 1048576 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'amends: the input has more than 1048576 bytes';
    END IF;
    IF NOT COALESCE(JSON_VALID(p_input), FALSE) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'amends: the input is no JSON, or is nested more deeply than this server reads';
    END IF;
    IF LOCATE('$serde_json::private::', p_input) > 0 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'amends: the input has a member whose name is reserved';
    END IF;
    SET v_saga = CAST(p_saga AS BINARY), v_id = CAST(p_id AS BINARY);
    SET v_words = CONCAT('amends: ', LEFT(p_id, 60), ' exists with another definition or input');
    -- A saga that is there already. A plain read, so that nothing an engine writes is waited for, or made to wait.
    SELECT s.saga, s.fingerprint, e.body INTO v_saga_known, v_fingerprint, v_body
    FROM (SELECT 1 AS one) o LEFT JOIN amends_saga s ON s.id = v_id LEFT JOIN amends_entry e ON e.saga = s.rowid AND e.seq = 1;
    IF v_saga_known IS NOT NULL AND v_saga_known <> v_saga THEN
        SIGNAL SQLSTATE '23000' SET MESSAGE_TEXT = v_words;
    END IF;
    IF v_body IS NOT NULL AND JSON_VALID(CONVERT(v_body USING utf8mb4)) THEN
        SET v_input_known = JSON_EXTRACT(CONVERT(v_body USING utf8mb4), '$.submitted.input');
    END IF;
    whole: BEGIN
        IF v_input_known IS NOT NULL THEN
            IF /*M! JSON_COMPACT */ (v_input_known) = /*M! JSON_COMPACT */ (p_input) COLLATE utf8mb4_bin THEN
                LEAVE whole;
            END IF;
            IF NOT /*M! JSON_EQUALS(v_input_known, p_input) */ /*!80000 (CAST(v_input_known AS JSON) = CAST(p_input AS JSON)) */ THEN
                SIGNAL SQLSTATE '23000' SET MESSAGE_TEXT = v_words;
            END IF;
        END IF;
        WHILE v_attempt < 10 DO
            SET v_attempt = v_attempt + 1, v_is_twice = FALSE;
            BEGIN
                DECLARE CONTINUE HANDLER FOR 1062 SET v_is_twice = TRUE;
                -- Whoever comes second waits here until the first has committed or rolled back.
                INSERT INTO amends_submission (id, saga, input, submitted_by, submitted_at, due_at)
                VALUES (v_id, v_saga, v_input, SESSION_USER(), v_now, v_now);
            END;
            IF NOT v_is_twice THEN
                LEAVE whole;
            END IF;
            -- What has been committed last, whatever this transaction sees otherwise.
            SET v_input_known = NULL;
            BEGIN
                DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
                SELECT saga, CONVERT(input USING utf8mb4), due_at IS NULL, reason INTO v_saga_known, v_input_known, v_is_refused, v_reason
                FROM amends_submission WHERE id = v_id LOCK IN SHARE MODE;
            END;
            IF v_input_known IS NOT NULL THEN
                IF v_is_refused THEN
                    SET v_words = CONCAT('amends: ', LEFT(p_id, 40), ' was refused: ', LEFT(CONVERT(v_reason USING utf8mb4), 60));
                    SIGNAL SQLSTATE '23000' SET MESSAGE_TEXT = v_words;
                END IF;
                IF v_saga_known <> v_saga OR NOT /*M! JSON_COMPACT */ (v_input_known) = /*M! JSON_COMPACT */ (p_input) COLLATE utf8mb4_bin THEN
                    SIGNAL SQLSTATE '23000' SET MESSAGE_TEXT = v_words;
                END IF;
                LEAVE whole;
            END IF;
            -- It was there, and an engine has just made a saga of it.
        END WHILE;
        SIGNAL SQLSTATE '40001' SET MESSAGE_TEXT = 'amends: the id is being moved by others; try the transaction again';
    END;
END;
