package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// rights are all that a user needs who may touch nothing but leaderrun's table.
const rights = "SELECT, INSERT, UPDATE"

var (
	errNoAnswer = errors.New("it answered something else than a Postgres does")
	errReplica  = errors.New("it is a replica")
	// The session that waited for the replica was cancelled, by pg_cancel_backend, say.
	errOneCopy  = errors.New("no replica has confirmed the change")
	errShape    = errors.New("its table leaderrun_leases is not leaderrun's")
	errNotSaved = errors.New("its table leaderrun_leases does not take what is written to it")
)

// The states (SQLSTATE) that are more than an error.
const (
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	noRight              = "42501"
	serializationFailure = "40001"
	tooManyConnections   = "53300"
	invalidAuthorization = "28" // its class
)

// states are the errors that a server gives, by how their SQLSTATE begins. All of
// them are no answer; a permanent one stays so until a person acts.
var states = []struct {
	state     string
	permanent bool
	hint      string
}{
	{"28P01", true, "correct the user or the password in the store's URL"},
	{"28", true, "let its pg_hba.conf admit this user, or correct user, sslmode and sslcert in the store's URL"},
	{"3D000", true, "create that database, or correct its name in the store's URL"},
	{noRight, true, hintRights},
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
	{"25006", false, hintReplica},
	{tooManyConnections, false, "raise its max_connections, or end idle sessions"},
	{"53", false, "give it what it lacks: disk or memory"},
}

const (
	hintRights    = "GRANT " + rights + " ON leaderrun_leases TO this user"
	hintTable     = "have somebody who may create tables run scripts/postgres.sql there, once"
	hintFormer    = "have the owner of that table run scripts/postgres.sql there, once more"
	hintShape     = "another program uses that name, or another version: choose another database, or drop the table once no command runs"
	hintReplica   = "name the server that takes writes, or both: postgres://HOST:PORT,HOST:PORT/DATABASE"
	hintOneCopy   = "see why the replica does not answer, and leave sessions alone that wait for it"
	hintRow       = "delete that row once no command of this key runs"
	hintIsolation = "ALTER ROLE this user SET default_transaction_isolation = 'read committed'; if it is that, another transaction changes leaderrun_leases: pg_stat_activity shows it"
	hintRefused   = "look for a trigger, a rule or a row security policy there"
	hintTLS       = "turn on ssl there, or leave sslmode out of the store's URL"
	hintOther     = "check that --store names a Postgres server, and look at its log"
)

// words are those of an address of Postgres.
var words = network.Words{
	Server: "Postgres", CA: "sslrootcert=FILE", Client: "sslcert=FILE&sslkey=FILE", NoTLS: hintTLS, Other: hintOther,
}

// noTable is that the table is missing and cannot be made.
type noTable struct{ error }

func (e *noTable) Unwrap() error { return e.error }

// noRuns is that the table is of the former layout and cannot be changed.
type noRuns struct{ error }

func (e *noRuns) Unwrap() error { return e.error }

// contended is that other transactions have refused change after change of a row.
type contended struct{ error }

func (e *contended) Unwrap() error { return e.error }

// untrusted is a row that leaderrun did not write.
type untrusted struct{ error }

func (s *Store) untrusted(key string, err error) error {
	return untrusted{fmt.Errorf("the row of %s, %s in leaderrun_leases cannot be trusted: %w", s.prefix, key, err)}
}

// storeError says in one line what a person needs to know of err, which is
// anything that the client, the network or the server can come up with.
func (p *conns) storeError(ctx context.Context, op string, err error) error {
	if errors.Is(err, network.ErrClosed) {
		return &lease.StoreError{Op: op, Err: err}
	}
	e := &lease.StoreError{Op: op}
	text, login := "", false // what is said of a user, a password or a certificate
	var answer *pgconn.PgError
	var unreadable *lease.StoreError
	switch {
	case errors.As(err, &unreadable): // a file that the URL names
		text, e.Permanent, e.Hint, login = unreadable.Err.Error(), true, unreadable.Hint, true
	case errors.As(err, &answer):
		login = strings.HasPrefix(answer.Code, invalidAuthorization)
		text, e.Permanent, e.Hint = serverProblem(err, answer)
	case errors.Is(ctx.Err(), context.Canceled):
		text = "given up before an answer came"
	case ctx.Err() != nil:
		text, e.Refused, e.Hint = words.Problem(ctx, err)
	default:
		if text, e.Permanent, e.Hint = ownProblem(err); text == "" {
			text, e.Permanent, e.Hint = tlsProblem(err)
			login = e.Permanent
		}
		if text == "" {
			text, e.Refused, e.Hint = words.Problem(ctx, err)
		}
	}
	if login && p.accepted.Load() { // it is being changed, there or here
		e.Permanent = false
	}
	e.Err = fmt.Errorf("postgres at %s: %s", p.addr, lease.Readable(text, p.config.Load().Password))
	return e
}

func serverProblem(err error, answer *pgconn.PgError) (text string, permanent bool, hint string) {
	text, hint = fmt.Sprintf("%s (%s)", answer.Message, answer.Code), hintOther
	for _, s := range states {
		if strings.HasPrefix(answer.Code, s.state) {
			permanent, hint = s.permanent, s.hint
			break
		}
	}
	if hint == hintShape {
		text = errShape.Error() + ": " + text
	}
	var missing *noTable
	var former *noRuns
	switch {
	case errors.As(err, &missing):
		text = "the table leaderrun_leases is missing, and " + text
		if permanent {
			hint = hintTable
		}
	case errors.As(err, &former) && answer.Code == noRight:
		text, hint = "its table leaderrun_leases lacks the column runs, and "+text, hintFormer
	case errors.As(err, new(*contended)):
		text = fmt.Sprintf("%d changes in a row were refused because of other transactions: %s", refusals, text)
	}
	return text, permanent, hint
}

// ownProblem is one that this package has found.
func ownProblem(err error) (text string, permanent bool, hint string) {
	var row untrusted
	switch {
	case errors.As(err, &row):
		return row.Error(), true, leasestate.Hint(row.error, hintRow)
	case errors.Is(err, errShape):
		return err.Error(), true, hintShape
	case errors.Is(err, errNotSaved):
		return err.Error(), true, hintRefused
	case errors.Is(err, errReplica), errors.Is(err, pgconn.ErrReadOnlyConnection), errors.Is(err, pgconn.ErrStandbyConnection):
		return errReplica.Error(), false, hintReplica
	case errors.Is(err, errOneCopy):
		return err.Error(), false, hintOneCopy
	case errors.Is(err, errNoAnswer):
		return err.Error(), false, hintOther
	case errors.Is(err, pgconn.ErrConnClosed):
		return words.Problem(context.Background(), net.ErrClosed)
	}
	return "", false, ""
}

func tlsProblem(err error) (text string, permanent bool, hint string) {
	if network.Cause(err).Error() == "server refused TLS connection" {
		return "it speaks no TLS", true, hintTLS
	}
	return words.TLSProblem(err)
}
