package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// rights are all rights that a user needs on leaderrun's table.
const rights = "SELECT, INSERT, UPDATE"

var (
	errNoAnswer = errors.New("it answered something else than a Postgres does")
	errReplica  = errors.New("it is a replica")
	// The session that waited for the replica was cancelled, by pg_cancel_backend, say.
	errOneCopy = errors.New("no replica has confirmed the change")
)

// hiddenTable says that the table is in a schema in which this user does not see it.
type hiddenTable struct{ schema string }

func (e *hiddenTable) Error() string {
	return "the table leaderrun_leases is out of sight in the schema " + e.schema
}

// The errors (SQLSTATE) after which the store does more than report them.
const (
	undefinedTable       = "42P01"
	noRight              = "42501"
	noObject             = "42" // the class of what is missing, is another kind, or is not allowed
	noSchema             = "3F"
	raised               = "P0" // the class of errors of a function, as of a trigger
	serializationFailure = "40001"
	tooManyConnections   = "53300"
	invalidAuthorization = "28" // its class
	noDatabase           = "3D000"
)

// states are the errors of a server, by the beginning of their SQLSTATE. A permanent one
// stays until a person acts.
var states = []struct {
	state     string
	permanent bool
	hint      string
}{
	{"28P01", true, "correct the user or the password in the store's URL"},
	{"28", true, "let this user log in (ALTER ROLE … LOGIN, pg_hba.conf), or correct user, sslmode and sslcert in the store's URL"},
	{noDatabase, true, "create that database, or correct its name in the store's URL"},
	{noRight, true, hintRights},
	{raised, true, hintRefused},
	{"3F000", true, hintTable},
	{"23", true, hintShape},    // a constraint
	{"22", true, hintShape},    // a value that the column's type cannot have
	{"42703", true, hintShape}, // no such column
	{"42804", true, hintShape}, // another type
	{"42P10", true, hintShape}, // no such key
	{"42809", true, hintShape}, // no table
	{"42", true, hintOther},
	{serializationFailure, false, hintIsolation},
	{"55000", true, hintShape},
	{"55P03", false, "another transaction locks the table leaderrun_leases: pg_stat_activity shows it"},
	{"57014", false, "another transaction locks the table leaderrun_leases, or statement_timeout is too short"},
	{"57P03", false, "wait until it has started, or started again"},
	{"57P05", false, "raise its idle_session_timeout"},
	{"57P", false, "wait until it is back, or look at its log"},
	{"25006", false, hintReplica + "; if it is no replica, see who has turned on its default_transaction_read_only: some providers do when the disk is full"},
	{tooManyConnections, false, "raise its max_connections, or the CONNECTION LIMIT of this user or database, or end idle sessions"},
	{"53", false, "give it what it lacks: disk or memory"},
}

// loginStates are errors of a server that opens no session, by the beginning of their SQLSTATE and by
// the server's routine, if that is named. They say nothing about the table.
var loginStates = []struct{ state, routine, hint string }{
	{noRight, "CheckMyDatabase", "GRANT CONNECT ON DATABASE that one TO this user"},
	{"55000", "", "ALTER DATABASE that one ALLOW_CONNECTIONS true, or correct its name in the store's URL"},
	{"22", "", hintSession},
	{noObject, "", hintSession},
}

// poolerError is the only SQLSTATE of PgBouncer.
const poolerError = "08P01"

// poolerErrors are the errors of PgBouncer, also of its own log-in at the server, by a part of
// their text.
var poolerErrors = []struct {
	part             string
	permanent, login bool
	hint             string
}{
	{"authentication failed", true, true, "correct the user or the password in the store's URL, or in the pooler's auth_file and [databases]"},
	{"no such user", true, true, "correct the user in the store's URL, or add it to the pooler's auth_file"},
	{"login rejected", true, true, "let this user log in: the pooler's auth_hba_file"},
	{"no such database", true, true, "add that database to the pooler's [databases], or correct its name in the store's URL"},
	{"does not exist", true, true, "create it, or correct its name in the store's URL or the pooler's [databases]"},
	{maxClients, false, false, "raise the pooler's max_client_conn, or end idle clients"},
	{"", false, false, "see whether the pooler reaches its server and has connections left: its log, and SHOW POOLS"},
}

const maxClients = "max_client_conn"

const (
	hintRights    = "GRANT " + rights + " ON leaderrun_leases TO this user"
	hintTable     = "have somebody who may create tables run scripts/postgres.sql there, once; packages have it in /usr/share/doc/leaderrun"
	hintShape     = "another program uses that name, or another version: choose another database, or drop the table once no command runs"
	hintSession   = "correct options= in the store's URL, or what ALTER ROLE … SET or ALTER DATABASE … SET has made the default of this user there"
	hintReplica   = "name the server that takes writes, or both: postgres://HOST:PORT,HOST:PORT/DATABASE"
	hintOneCopy   = "see why the replica does not answer, and leave sessions alone that wait for it"
	hintIsolation = "ALTER ROLE this user SET default_transaction_isolation = 'read committed'; if it is that, another transaction changes leaderrun_leases: pg_stat_activity shows it"
	hintRefused   = "look for a trigger, a rule or a row security policy there"
	hintTLS       = "turn on ssl there, or leave sslmode out of the store's URL"
	hintOther     = "check that the store's URL names a Postgres server, and look at its log"
)

var hints = keep.Hints{Table: hintTable, Shape: hintShape, NotSaved: hintRefused}

// words are those of Postgres.
var words = network.Words{
	Server: "Postgres", CA: "sslrootcert=FILE", Client: "sslcert=FILE&sslkey=FILE", NoTLS: hintTLS, Other: hintOther,
}

func (p *conns) storeError(ctx context.Context, op string, err error) error {
	return words.StoreError(ctx, op, "postgres at "+p.addr, err, known(ctx, err), p.accepted, p.config.Load().Password)
}

// known returns what the server has said, or this package has found.
func known(ctx context.Context, err error) *network.Known {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return serverProblem(err, answer)
	}
	if ctx.Err() != nil { // the cause of err
		return nil
	}
	return ownProblem(err)
}

func serverProblem(err error, answer *pgconn.PgError) *network.Known {
	hasClass := func(class string) bool { return strings.HasPrefix(answer.Code, class) }
	k := &network.Known{Text: fmt.Sprintf("%s (%s)", answer.Message, answer.Code), Login: hasClass(invalidAuthorization) || answer.Code == noDatabase, Rights: hasClass(noObject) || hasClass(noSchema) || hasClass(raised), Hint: hintOther}
	for _, s := range states {
		if hasClass(s.state) {
			k.Permanent, k.Hint = s.permanent, s.hint
			break
		}
	}
	for _, s := range loginStates {
		if errors.As(err, new(*pgconn.ConnectError)) && hasClass(s.state) && (s.routine == "" || s.routine == answer.Routine) {
			k.Permanent, k.Login, k.Hint = true, true, s.hint
			break
		}
	}
	if answer.Routine == "ExecWithCheckOptions" { // the name of a right, but no right: a policy
		k.Hint = hintRefused
	}
	for _, p := range poolerErrors {
		if answer.Code == poolerError && strings.Contains(answer.Message, p.part) {
			k.Permanent, k.Login, k.Hint = p.permanent, p.login, p.hint
			break
		}
	}
	hints.Complete(k, err)
	return k
}

func ownProblem(err error) *network.Known {
	switch {
	case errors.Is(err, errReplica), errors.Is(err, pgconn.ErrReadOnlyConnection), errors.Is(err, pgconn.ErrStandbyConnection):
		return &network.Known{Text: errReplica.Error(), Hint: hintReplica}
	case errors.Is(err, errOneCopy):
		return &network.Known{Text: err.Error(), Hint: hintOneCopy}
	case errors.Is(err, errNoAnswer), strings.Contains(err.Error(), "received unexpected message"):
		return &network.Known{Text: errNoAnswer.Error(), Hint: hintOther}
	case errors.Is(err, pgconn.ErrConnClosed):
		return &network.Known{Text: "it closed the connection", Hint: hintOther}
	case network.Cause(err).Error() == "server refused TLS connection":
		return &network.Known{Text: "it speaks no TLS", Permanent: true, Login: true, Hint: hintTLS}
	}
	if hidden, ok := errors.AsType[*hiddenTable](err); ok {
		return &network.Known{Text: err.Error(), Permanent: true, Rights: true, Hint: "GRANT USAGE ON SCHEMA " + hidden.schema + " TO this user, and see that its search_path names that schema"}
	}
	k := hints.Known(err)
	if errors.Is(err, keep.ErrNotSaved) || errors.Is(err, keep.ErrShape) { // as of a row security policy, or in another search_path
		k.Rights = true
	}
	return k
}
