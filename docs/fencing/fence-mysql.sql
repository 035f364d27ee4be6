CREATE TABLE fence (name varbinary(200) PRIMARY KEY, token bigint NOT NULL) ENGINE = InnoDB;

DELIMITER //
CREATE PROCEDURE fence(my_name varbinary(200), my_token bigint)
BEGIN
	DECLARE claimed bigint;
	DECLARE refusal varchar(128);
	SET SESSION wait_timeout = 30; -- seconds
	INSERT INTO fence VALUES (my_name, my_token) ON DUPLICATE KEY UPDATE token = GREATEST(token, my_token);
	SELECT token INTO claimed FROM fence WHERE name = my_name FOR UPDATE;
	IF claimed > my_token THEN
		SET refusal = LEFT(CONCAT('fenced: token ', my_token, ' is refused, ', claimed, ' has claimed ', my_name), 128);
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
	END IF;
END //
