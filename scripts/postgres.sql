-- The table of leaderrun's leases, if leaderrun's user must not create tables. Run this
-- once in the database of the store's URL, as a user who may create tables:
--
--   psql -v user=USER -f scripts/postgres.sql DATABASE
--
-- USER is the user as whom leaderrun connects. Runs need SELECT, INSERT and UPDATE; with
-- DELETE the rows of keys that have not been used for long are removed. The table must be
-- in that user's search_path. Without -v user the rights stay as they are.
BEGIN;

CREATE TABLE IF NOT EXISTS leaderrun_leases (
	prefix         text        NOT NULL, -- --prefix
	service_name   text        NOT NULL, -- --key
	leader_id      text        NOT NULL, -- the holder; '' when nobody leads
	term           bigint      NOT NULL, -- the fencing token, larger at each grant
	last_heartbeat timestamptz,          -- the last grant or renewal
	metadata       jsonb,                -- of the leader
	version        bigint      NOT NULL, -- another one at each change of the row
	state          jsonb       NOT NULL, -- the whole of it but the runs; the columns above are for people
	runs           jsonb,                -- the last ones, newest first
	PRIMARY KEY (prefix, service_name)
);

-- Stored outside of the row and not compressed, the runs need not be written again at each renewal.
ALTER TABLE leaderrun_leases ALTER COLUMN runs SET STORAGE EXTERNAL;

\if :{?user}
GRANT SELECT, INSERT, UPDATE, DELETE ON leaderrun_leases TO :"user";
\endif

COMMIT;
