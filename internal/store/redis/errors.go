package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// rights are all that an ACL user needs who may touch nothing but leaderrun's
// keys: besides them only "~PREFIX:*", "+auth" and, for a database other than 0,
// "+select".
const rights = "+eval +get +set +del +pexpire +pttl +hset +hmget +time +rpush +lpush +ltrim +lrange +blpop +hello"

var errClosed = errors.New("the store is closed")

// replies are the errors that a server gives, by how they begin. All of them
// are no answer; a permanent one stays so until a person acts.
var replies = []struct {
	prefix    string
	permanent bool
	cure      string
}{
	{noAuth, true, "give the store's URL a password: redis://:PASSWORD@HOST"},
	{"WRONGPASS", true, "correct the user or the password in the store's URL"},
	{"ERR invalid password", true, "correct the password in the store's URL"},
	{"ERR AUTH <password> called without any password", true, "take the password out of the store's URL"},
	{"ERR Client sent AUTH, but no password is set", true, "take the password out of the store's URL"},
	{"DENIED", true, "give that Redis a password: it is in protected mode"},
	{"NOPERM", true, cureRights},
	{"ERR The user executing the script can't", true, cureRights},
	{"WRONGTYPE", true, cureType},
	{"LEADERRUN", true, cureType},
	{"ERR unknown command", true, "name a Redis of version 6 or later that may run scripts"},
	{"ERR DB index is out of range", true, "choose a smaller database number in the store's URL"},
	{"ERR SELECT is not allowed", true, cureCluster},
	{"MOVED", true, cureCluster},
	{"CROSSSLOT", true, cureCluster},
	{"CLUSTERDOWN", false, "look at its CLUSTER INFO"},
	{"READONLY", false, "it is a replica: name the server it follows"},
	{"MASTERDOWN", false, "it is a replica cut off from the server it follows: name that one"},
	{"LOADING", false, "wait until it has loaded its data"},
	{"BUSY", false, "another script blocks it: SCRIPT KILL ends that"},
	{"OOM", false, "raise its maxmemory or delete what nobody needs"},
	{"MISCONF", false, "it cannot save its data: look at its log and its disk"},
	{"NOREPLICAS", false, "it has too few replicas to accept writes: look at its INFO replication"},
	{"ERR max number of clients reached", false, "raise its maxclients or end idle clients"},
}

// noAuth is what a server wants to say that finds our scripts too long to be
// read from a stranger and answers with a protocol error instead.
const noAuth = "NOAUTH Authentication required"

const (
	cureRights  = "grant this user ~PREFIX:* " + rights
	cureType    = "another program uses a key of this name: choose another --prefix, or delete that key"
	cureCluster = "name a single Redis, not a node of a cluster"
	cureName    = "check the host in the store's URL"
	cureNetwork = "check that it runs and that nothing on the way drops packets"
	cureOther   = "check that --store names a Redis server, and look at its log"
)

// storeError says in one line what a person needs to know of err, which is
// anything that the client, the network or the server can come up with.
func (p *conns) storeError(ctx context.Context, op string, err error) error {
	if isReply(err) {
		return p.replyError(op, err)
	}
	e := &lease.StoreError{Op: op}
	var text string
	var dns *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.Is(err, errClosed):
		return &lease.StoreError{Op: op, Err: err}
	case errors.Is(ctx.Err(), context.Canceled):
		text = "given up before an answer came"
	case ctx.Err() != nil, isTimeout(err):
		text, e.Cure = "no answer in time", cureNetwork
	case errors.As(err, &dns) && dns.IsNotFound:
		text, e.Cure = "no such host", cureName
	case errors.As(err, &dns):
		text, e.Cure = "the name of the host cannot be looked up now", cureName
	case errors.Is(err, syscall.ECONNREFUSED):
		text, e.Cure = "connection refused", "start it, or name the store with --store"
		e.Refused = true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		text, e.Cure = "it closed the connection", cureOther
	case errors.As(err, &errno):
		text, e.Cure = errno.Error(), cureNetwork
	default:
		text, e.Cure = "no Redis: "+p.readable(strings.TrimPrefix(err.Error(), "redis: ")), cureOther
	}
	e.Err = fmt.Errorf("redis at %s: %s", p.opt.Addr, text)
	return e
}

// inScript is what servers wrap round the error of a command in a script:
// before version 7 in front of it, since then behind it.
var inScript = regexp.MustCompile(`^ERR Error running script \(call to \w+\): @user_script: ?\d+: | script: \w+, on @user_script:\d+\.?$`)

func (p *conns) replyError(op string, err error) error {
	text := inScript.ReplaceAllString(err.Error(), "")
	text, _, _ = strings.Cut(text, ", with args beginning with") // the script, or the password
	if strings.HasPrefix(text, "ERR Protocol error: unauthenticated") {
		text = noAuth
	}
	class := text
	// A script reports a bad key as "LEADERRUN KEY: REPLY". Missing rights show
	// themselves that way, too.
	for _, denied := range []string{"NOPERM", "ERR The user executing the script can't"} {
		if strings.HasPrefix(class, "LEADERRUN ") && strings.Contains(class, ": "+denied) {
			class = denied
		}
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, "LEADERRUN "), "ERR ")
	e := &lease.StoreError{Op: op, Err: fmt.Errorf("redis at %s: %s", p.opt.Addr, p.readable(text))}
	for _, r := range replies {
		if strings.HasPrefix(class, r.prefix) {
			e.Permanent, e.Cure = r.permanent, r.cure
			break
		}
	}
	return e
}

// noAnswer is what an answer amounts to that none of the scripts gives.
func (p *conns) noAnswer(op string) error {
	return &lease.StoreError{
		Op: op, Cure: cureOther,
		Err: fmt.Errorf("redis at %s: it answered something else than leaderrun's script does", p.opt.Addr),
	}
}

// readable makes a foreign text fit for a terminal and a log: one short line,
// and not the password, which servers repeat when they do not know the command
// it was sent with.
func (p *conns) readable(text string) string {
	const longest = 200
	if p.opt.Password != "" {
		text = strings.ReplaceAll(text, p.opt.Password, "***")
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "..."
	}
	return text
}

// isReply tells an error that the server sent from one that kept it from
// answering.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
