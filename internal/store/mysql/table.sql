CREATE TABLE IF NOT EXISTS leaderrun_leases (
	prefix       varbinary(200) NOT NULL, -- --prefix
	service_name varbinary(200) NOT NULL, -- --key
	version      bigint         NOT NULL, -- another one at each change of the row
	state        mediumtext     NOT NULL, -- JSON
	PRIMARY KEY (prefix, service_name)
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin
