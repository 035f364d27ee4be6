package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// rights are all rights that an ACL user needs, besides "~PREFIX:*" and, for a database other
// than 0, "+select".
const rights = "+eval +get +set +del +pexpire +pttl +hset +hmget +time +rpush +blpop +brpoplpush +info +hello"

// listing are the rights that only Keys needs; the second one is for clusters.
const listing = "+scan +cluster|slots"

// reply is an error of a server, by its beginning. A permanent one stays until a person
// acts.
type reply struct {
	prefix    string
	permanent bool
	hint      string
}

var replies = []reply{
	{noAuth, true, "give a password in the store's URL: redis://[USER]:PASSWORD@HOST"},
	{"WRONGPASS", true, "correct the user or the password in the store's URL"},
	{"ERR invalid password", true, "correct the password in the store's URL"},
	{"ERR AUTH <password> called without any password", true, hintNoPassword},
	{"ERR Client sent AUTH, but no password is set", true, hintNoPassword},
	{"DENIED", true, "give that Redis a password: it is in protected mode"},
	{noList, true, "grant this user " + listing + ", or name the key"},
	{noSelect, true, "grant this user +select, or choose database 0 in the store's URL"},
	{"NOPERM", true, hintRights},
	{"ERR The user executing the script can't", true, hintRights},
	{"WRONGTYPE", true, hintType},
	{"LEADERRUN", true, hintType},
	{"ERR unknown command", true, "name a Redis of version 6 or later that may run scripts; for sentinels write redis-sentinel://"},
	{"ERR Unknown Redis command called from script", true, hintRenamed},
	{"ERR Unknown command called from script", true, hintRenamed}, // by Valkey
	{"ERR DB index is out of range", true, "choose a smaller database number in the store's URL"},
	{"ERR SELECT is not allowed", true, hintCluster},
	{"MOVED", true, hintCluster},
	{"CROSSSLOT", true, hintCluster},
	{"CLUSTERDOWN", false, hintDown},
	{"READONLY", false, "it is a replica: name the server it follows, or the sentinels of both"},
	{"MASTERDOWN", false, "it is a replica cut off from the server it follows: name that one, or the sentinels of both"},
	{"LOADING", false, "wait until it has loaded its data"},
	{"BUSY", false, "another script blocks it: SCRIPT KILL ends that"},
	{"OOM", false, "raise its maxmemory or delete what nobody needs"},
	{"MISCONF", false, "it cannot save its data: look at its log and its disk"},
	{"NOREPLICAS", false, "it has too few replicas to accept writes: look at its INFO replication"},
	{"ERR " + errTooManyClients.Error(), false, hintTooMany},
}

// loginReplies are the beginnings of errors about a user, a password or the database.
var loginReplies = []string{"NOAUTH", "WRONGPASS", "invalid password", "AUTH <password> called", "Client sent AUTH", "DENIED", "DB index"}

// Replies that mean something else if the URL names sentinels or a cluster.
var (
	sentinelReplies = []reply{
		{noAuth, true, "give the sentinels' password with sentinel_password=PASSWORD in the store's URL"},
		{"WRONGPASS", true, "correct sentinel_username or sentinel_password in the store's URL"},
		{"NOPERM", true, "grant this user of the sentinels +sentinel|get-master-addr-by-name +hello"},
		{"ERR unknown command", true, "name the sentinels, not the server that they watch; their port is mostly 26379"},
	}
	failoverReplies = []reply{
		{"READONLY", false, hintFailover},
		{"MASTERDOWN", false, hintFailover},
	}
	clusterReplies = []reply{
		{"MOVED", false, hintDown}, // after maxMoves of them
		{"ASK", false, hintMoving},
		{"TRYAGAIN", false, hintMoving},
	}
)

// replies returns the replies that apply to what, "redis" or "sentinel".
func (s *servers) replies(what string) []reply {
	switch {
	case what == "sentinel":
		return slices.Concat(sentinelReplies, replies)
	case s.kind == sentinel:
		return slices.Concat(failoverReplies, replies)
	case s.kind == cluster:
		return slices.Concat(clusterReplies, replies)
	}
	return replies
}

// noAuth replaces a protocol error: a server reports that if a client without a password
// sends something as long as our scripts.
const noAuth = "NOAUTH Authentication required"

// noSlot reports whether a server has too many clients. With TLS it only closes the
// connection.
func noSlot(err error) bool {
	var handshake network.HandshakeError
	return errors.Is(err, errTooManyClients) ||
		errors.As(err, &handshake) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
}

// noList replaces a NOPERM for the requests that only Keys sends.
const noList = "NOPERM: no right to list"

// noSelect replaces a NOPERM for the request that only a database other than 0 needs.
const noSelect = "NOPERM: no right to select"

const (
	hintNoPassword = "take the password out of the store's URL, or name the user whose password it is"
	hintRights     = "grant this user ~PREFIX:* " + rights
	hintRenamed    = "remove rename-command from its configuration: scripts need get, set, del, pexpire, pttl, hset, hmget, time and rpush under their own names"
	hintType       = "another program uses a key of this name: choose another --prefix, or delete that key"
	hintCluster    = "it is a node of a cluster: write redis-cluster://HOST for redis://HOST"
	hintTooMany    = "raise its maxclients or end idle clients"
	hintDown       = "look at CLUSTER INFO and CLUSTER NODES"
	hintMoving     = "the key's slot is on its way to another node: wait until CLUSTER SETSLOT has ended that"
	// Sentinels name a replica if a failover is not over yet, or went wrong.
	hintFailover = "wait for the end of the failover, or look at SENTINEL MASTERS"
	hintSocket   = "let this user reach the socket and write to it: its directories, unixsocketperm, or the group of the server"
	hintOther    = "check that the store's URL names a Redis server (rediss:// where it speaks TLS), and look at its log"
)

// words are those of Redis.
var words = network.Words{
	Server: "Redis", CA: "ca=FILE", Client: "cert=FILE&key=FILE", Name: "server_name=NAME",
	NoTLS: "name the port that does, or leave TLS out: redis:// instead of rediss://", Other: hintOther,
}

// failure returns an error of the server at addr, for people. what is "redis" or
// "sentinel".
func (s *servers) failure(ctx context.Context, op, what, addr string, err error) *lease.StoreError {
	var known *network.Known
	switch {
	case errors.Is(err, errTooManyClients):
		known = &network.Known{Text: errTooManyClients.Error(), Hint: hintTooMany}
	case isReply(err):
		known = s.replyProblem(what, err)
	case errors.Is(err, syscall.EACCES):
		known = &network.Known{Text: "permission denied", Hint: hintSocket}
	}
	now := s.latest.Load()
	accepted, sent, other := s.conns.accepted, now.password, now.sentinelPassword
	if what == "sentinel" {
		accepted, sent, other = s.guides.accepted, other, sent
	}
	e := words.StoreError(ctx, op, what+" at "+addr, err, known, accepted, sent, other)
	if s.tls != nil && e.Hint == network.HintNetwork {
		e.Hint += ", and that this port speaks TLS"
	}
	return e
}

// inScript matches what servers add to the error of a command in a script: before version 7
// in front of it, since then behind it. It is compiled when it is first needed, to keep the start of
// most runs short.
var inScript = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^ERR Error running script \(call to \w+\): @user_script: ?\d+: | script: \w+, on @user_script:\d+\.?$`)
})

func (s *servers) replyProblem(what string, err error) *network.Known {
	text := inScript().ReplaceAllString(err.Error(), "")
	text = strings.Replace(text, "ERR ACL failure in script: ", "NOPERM ", 1) // Redis 7.2, Valkey
	text, _, _ = strings.Cut(text, ", with args beginning with")              // the script, or the password
	if strings.HasPrefix(text, "ERR Protocol error: unauthenticated") {
		text = noAuth
	}
	class := text
	// A script reports a bad key as "LEADERRUN KEY: REPLY", and missing rights in the same
	// way.
	for _, denied := range []string{"NOPERM", "ERR The user executing the script can't"} {
		if strings.HasPrefix(class, "LEADERRUN ") && strings.Contains(class, ": "+denied) {
			class = denied
		}
	}
	if strings.HasPrefix(class, "NOPERM") && (strings.Contains(class, "'scan'") || strings.Contains(class, "'cluster")) {
		class = noList
	}
	if strings.HasPrefix(class, "NOPERM") && strings.Contains(class, "'select'") {
		class = noSelect
	}
	text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(text, "LEADERRUN "), "ERR "), ".")
	k := &network.Known{Text: text, Login: slices.ContainsFunc(loginReplies, func(begin string) bool { return strings.HasPrefix(text, begin) })}
	k.Rights = strings.HasPrefix(class, "NOPERM") || strings.HasPrefix(class, "ERR The user executing the script can't")
	for _, r := range s.replies(what) {
		if strings.HasPrefix(class, r.prefix) {
			k.Permanent, k.Hint = r.permanent, r.hint
			break
		}
	}
	return k
}

// noAnswer returns the error for an answer that asked, such as "a sentinel", never gives.
func noAnswer(what, addr, asked string) *lease.StoreError {
	return &lease.StoreError{Hint: hintOther, Err: fmt.Errorf("%s at %s: it answered something else than %s does", what, addr, asked)}
}

// isReply reports whether the server sent the error; other errors kept it from answering.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
