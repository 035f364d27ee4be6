package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// rights are all rights that a user needs on leaderrun's table.
const rights = "SELECT, INSERT, UPDATE"

var (
	errNoAnswer = errors.New("it answered something else than a MariaDB or MySQL does")
	errReplica  = errors.New("it is read-only")
)

// The errors of a server after which the store does more than report them.
const (
	noSuchTable  = 1146
	duplicateRow = 1062
	interrupted  = 1317
	// refusedByTrigger is what SIGNAL sends.
	refusedByTrigger = 1644
)

var (
	tooManyConnections = []uint16{1040, 1203, 1226}
	// contention: because of another transaction or node nothing was changed.
	contention = []uint16{1213, 1020, interrupted}
	// statementTimeouts are the errors of max_execution_time and max_statement_time.
	statementTimeouts = []uint16{3024, 1969}
	// logins are the errors about a user, a password, a certificate or the database.
	logins = []uint16{1045, 1044, 1049, 1130, 1698, 1820, 1862, 3118, 4151}
	// denials are the errors about what a user may do.
	denials = []uint16{1044, 1142, 1143, 1227, refusedByTrigger}
)

// numbers are the errors of a server. A permanent one stays until a person acts.
var numbers = []struct {
	numbers   []uint16
	permanent bool
	hint      string
}{
	{[]uint16{1045, 1698}, true, "correct the user or the password in the store's URL, let the server admit this user from this host, or write ?tls=true if it wants TLS (require_secure_transport)"},
	{[]uint16{1130}, true, "let the server admit this user from this host: CREATE USER 'USER'@'HOST'"},
	{[]uint16{1820, 1862}, true, "give this user a new password: ALTER USER"},
	{[]uint16{3118, 4151}, true, "unlock this user: ALTER USER … ACCOUNT UNLOCK"},
	{[]uint16{1044}, true, "correct the name of the database in the store's URL, or " + hintRights},
	{[]uint16{1049}, true, "create that database, or correct its name in the store's URL"},
	{[]uint16{1129}, false, "end the block there: mysqladmin flush-hosts"},
	{[]uint16{1054, 1364, 1366, 1406, 3140, 4025}, true, hintShape},
	{[]uint16{1347, 1288, 1348}, true, hintShape}, // a view
	{[]uint16{1205}, false, "another transaction locks the table leaderrun_leases: SHOW PROCESSLIST shows it"},
	{contention, false, "another transaction or node changes leaderrun_leases: SHOW PROCESSLIST shows it"},
	{statementTimeouts, false, "raise its max_statement_time or max_execution_time"},
	{[]uint16{1290, 1792, 1836}, false, hintReplica},
	{[]uint16{1047}, false, "wait until this node of the cluster is in step, or name one that is"},
	{[]uint16{1053, 1927, 3169}, false, "wait until it is back, or look at its log"},
	{[]uint16{3159}, true, "write ?tls=true behind the database in the store's URL, or ?ca=FILE"},
	{[]uint16{4031}, false, "raise its wait_timeout"}, // MySQL since 8.0.24, of an idle session
	{[]uint16{refusedByTrigger}, true, hintRefused},
	{denials, true, hintRights},
	{[]uint16{1184}, false, "correct its init_connect: its log has the error"},
	{[]uint16{1153}, true, "raise its max_allowed_packet"},
	{[]uint16{1021, 1114}, false, "give it what it lacks: disk"},
	{[]uint16{1203, 1226}, false, "raise this user's limits: ALTER USER … WITH, or max_user_connections"},
	{tooManyConnections, false, "raise its max_connections, or end idle sessions"},
}

const (
	hintRights  = "GRANT " + rights + " ON DATABASE.leaderrun_leases TO this user"
	hintTable   = "GRANT CREATE, " + rights + " ON DATABASE.* TO this user, or have somebody create the table as docs/store-mysql.md has it"
	hintShape   = "another program uses that name: choose another database, or drop the table once no command runs"
	hintReplica = "name the server that takes writes"
	hintRefused = "look for a trigger there"
	hintTLS     = "let it speak TLS (ssl_cert, ssl_key), or leave tls=, ca= and the like out of the store's URL"
	hintPlugin  = "let this user log in with a password that this program knows how to send: mysql_native_password, caching_sha2_password, sha256_password or ed25519"
	hintOther   = "check that the store's URL names a MariaDB or MySQL server, and look at its log"
)

var hints = keep.Hints{Table: hintTable, Shape: hintShape, NotSaved: hintRefused}

// words are those of MariaDB and MySQL.
var words = network.Words{
	Server: "MariaDB or MySQL", CA: "ca=FILE", Client: "cert=FILE&key=FILE", Name: "server_name=NAME", NoTLS: hintTLS, Other: hintOther,
}

// hasNumber reports whether the server answered with one of these errors.
func hasNumber(err error, numbers ...uint16) bool {
	var answer *mysql.MySQLError
	return errors.As(err, &answer) && slices.Contains(numbers, answer.Number)
}

func (p *conns) storeError(ctx context.Context, op string, err error) error {
	now := p.latest.Load()
	return words.StoreError(ctx, op, "mysql at "+now.addr, err, known(ctx, err), p.accepted, now.password)
}

// known returns what the server has said, or what this package or the driver has found.
func known(ctx context.Context, err error) *network.Known {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return serverProblem(err, answer)
	}
	if ctx.Err() != nil { // the cause of err
		return nil
	}
	return ownProblem(err)
}

func serverProblem(err error, answer *mysql.MySQLError) *network.Known {
	k := &network.Known{Text: fmt.Sprintf("%s (%d)", answer.Message, answer.Number), Login: hasNumber(err, logins...), Rights: hasNumber(err, denials...), Hint: hintOther}
	for _, n := range numbers {
		if slices.Contains(n.numbers, answer.Number) {
			k.Permanent, k.Hint = n.permanent, n.hint
			break
		}
	}
	hints.Complete(k, err)
	return k
}

func ownProblem(err error) *network.Known {
	switch {
	case errors.Is(err, errReplica):
		return &network.Known{Text: err.Error(), Hint: hintReplica}
	case errors.Is(err, mysql.ErrNoTLS):
		return &network.Known{Text: "it speaks no TLS", Permanent: true, Hint: hintTLS}
	case errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrOldPassword), errors.Is(err, mysql.ErrCleartextPassword), errors.Is(err, mysql.ErrNativePassword):
		return &network.Known{Text: "it asks for another kind of login than by a password", Permanent: true, Hint: hintPlugin}
	case errors.Is(err, errNoAnswer), errors.Is(err, mysql.ErrMalformPkt), errors.Is(err, mysql.ErrPktSync), errors.Is(err, mysql.ErrPktSyncMul), errors.Is(err, mysql.ErrOldProtocol):
		return &network.Known{Text: errNoAnswer.Error(), Hint: hintOther}
	}
	k := hints.Known(err)
	if errors.Is(err, keep.ErrNotSaved) {
		k.Rights = true
	}
	return k
}
