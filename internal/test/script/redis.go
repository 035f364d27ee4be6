//go:build linux

package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
)

// operator is the user of redis-do, so that a script can lock the default user out.
const operator = "operator"

func (s *servers) startRedis(t testing.TB) {
	s.redis = StartRedis(t, "--user", operator, "on", "nopass", "~*", "&*", "+@all")
	s.server = s.redis
	s.admin = redis.NewClient(&redis.Options{Addr: s.redis.Addr, Username: operator, Password: operator})
	t.Cleanup(func() { _ = s.admin.Close() })
	s.env = map[string]string{"STORE": "redis://" + s.redis.Addr + "/0", "SERVER": s.redis.Addr}
}

func redisDo(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := make([]any, len(args))
	for i, arg := range args {
		command[i] = arg
	}
	reply, err := of(ts).admin.Do(ctx, command...).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	if err != nil {
		fmt.Fprintln(ts.Stderr(), err)
	} else {
		printReply(ts.Stdout(), reply)
	}
	if neg != (err != nil) {
		ts.Fatalf("redis-do: error %v, want one: %t", err, neg)
	}
}

// printReply prints an answer, the elements of a list one per line.
func printReply(w io.Writer, reply any) {
	list, ok := reply.([]any)
	if !ok {
		list = []any{reply}
	}
	for _, element := range list {
		fmt.Fprintln(w, element)
	}
}

func proxy(ts *testscript.TestScript, args []string) {
	s := of(ts)
	switch {
	case len(args) == 0 && s.proxy == nil:
		addr := ts.Getenv("SERVER")
		p, err := faultnet.Listen(addr)
		ts.Check(err)
		s.proxy = p
		ts.Defer(p.Close)
		ts.Setenv("PROXY", strings.Replace(ts.Getenv("STORE"), addr, p.Addr(), 1))
	case len(args) == 1 && s.proxy != nil:
		ts.Check(s.proxy.Set(faultnet.Mode(args[0])))
	case len(args) == 2 && args[0] == "delay" && s.proxy != nil:
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		s.proxy.Delay(d)
	default:
		ts.Fatalf("usage: proxy, then proxy MODE or proxy delay D")
	}
}
