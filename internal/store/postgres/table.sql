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
)
