CREATE TABLE fence (key text PRIMARY KEY, token bigint NOT NULL);

CREATE FUNCTION fence(my_key text, my_token bigint) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
	PERFORM set_config('idle_in_transaction_session_timeout', '30s', true); -- of this transaction
	INSERT INTO fence AS f VALUES (my_key, my_token)
	ON CONFLICT (key) DO UPDATE SET token = my_token WHERE f.token <= my_token;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'fenced: token % is refused, a newer leader of % has claimed its own', my_token, my_key;
	END IF;
END $$;
REVOKE EXECUTE ON FUNCTION fence FROM PUBLIC;
