-- The table of leaderrun's leases, for users who must not create tables. Run it
-- once in the database that the store's URL names, as somebody who may:
--
--   psql -v user=USER -f scripts/postgres.sql DATABASE
--
-- USER is who leaderrun connects as; he needs these three rights and no others.
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
	state          jsonb       NOT NULL, -- the whole of it; the columns above are for people
	PRIMARY KEY (prefix, service_name)
);

\if :{?user}
GRANT SELECT, INSERT, UPDATE ON leaderrun_leases TO :"user";
\endif

COMMIT;
