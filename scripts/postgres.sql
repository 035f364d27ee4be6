-- The table of leaderrun's leases, for users who must not create tables. Run it
-- once in the database that the store's URL names, as somebody who may, and once
-- more if leaderrun says that a column is missing:
--
--   psql -v user=USER -f scripts/postgres.sql DATABASE
--
-- USER is who leaderrun connects as. SELECT, INSERT and UPDATE are all that runs
-- need; with DELETE the rows of keys that are long out of use are removed.
-- The table must be found by his search_path. Without -v user the rights are left
-- as they are.
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

-- A table of before may lack the runs. Kept apart from the rest of the row and not
-- compressed, they need not be written again at each renewal.
ALTER TABLE leaderrun_leases ADD COLUMN IF NOT EXISTS runs jsonb, ALTER COLUMN runs SET STORAGE EXTERNAL;

\if :{?user}
GRANT SELECT, INSERT, UPDATE, DELETE ON leaderrun_leases TO :"user";
\endif

COMMIT;
