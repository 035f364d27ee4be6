package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

// namesFiles matches the parameters that name a file: the fuzzer must not make leaderrun
// read any file.
var namesFiles = regexp.MustCompile(`(ca|cert|key)=`)

// A URL that is accepted names servers. The error for any other says why and what to do, in
// one line and without any part of the URL.
func FuzzURL(f *testing.F) {
	f.Add("redis://:", "@h:6379/0")
	f.Add("redis://", "")
	f.Add("redis-sentinel://a:1,b,[::1]/", "/3?sentinel_password=x")
	f.Add("rediss-cluster://u:p@a,b?server_name=", "&insecure=true")
	f.Add("unix://", "/s?db=2")
	f.Add("redis://h:1/#", "%zz")
	leasetest.FuzzURL(f, namesFiles, parseURL, func(t *testing.T, text string, got *target) {
		if len(got.addrs) == 0 || got.db < 0 || got.kind == sentinel && got.name == "" {
			t.Errorf("%q was taken as %+v", text, got)
		}
		for _, addr := range got.addrs {
			if host, _, err := net.SplitHostPort(addr); got.kind != socket && (err != nil || host == "") {
				t.Errorf("%q names the address %q", text, addr)
			}
		}
	})
}

// tooLong matches lengths for which the client allocates memory before it reads anything.
var tooLong = regexp.MustCompile(`[$*%~>=!(]\d{5,}`)

// Whatever the answer is, no verb crashes, hangs or reads more into it than it says.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"*6\r\n:1\r\n:1700000000000\r\n:1700000000000\r\n:0\r\n:1700000000000\r\n:1700000000000\r\n",
		"*8\r\n:0\r\n:5\r\n:10\r\n$4\r\nheld\r\n$1\r\nx\r\n:3\r\n:1000\r\n:0\r\n",
		"*4\r\n:2\r\n:5\r\n:300\r\n$5\r\nfresh\r\n",
		"*4\r\n:3\r\n:5\r\n:5\r\n$6\r\nserved\r\n", "*3\r\n:1\r\n:5\r\n:1\r\n", "*2\r\n:1\r\n:5\r\n",
		"*3\r\n:1\r\n:-5\r\n$3\r\nabc\r\n", "-NOAUTH Authentication required.\r\n", "-LOADING x\r\n", "$-1\r\n", "*-1\r\n", "*1\r\n*1\r\n*0\r\n",
		"SSH-2.0-OpenSSH_9.2\r\n", "\x00\xff\xfe\r\n", "\x1b[31mred\r\n", "_\r\n", "$-9223372036854775808\r\n", "%1\r\n*0\r\n+x\r\n", ">1\r\n+x\r\n",
		"*6\r\n+1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",                   // the code is a string
		"*6\r\n:1\r\n:1\r\n:-5\r\n:1\r\n:1\r\n:1\r\n",                  // a negative token
		"*6\r\n:1\r\n:9223372036854775807\r\n:1\r\n:1\r\n:1\r\n:1\r\n", // beyond Lua's integers
		"*6\r\n:1\r\n:1\r\n:1\r\n-ERR x\r\n:1\r\n:1\r\n", "*4\r\n:2\r\n:1\r\n:1\r\n+because\r\n", "-ERR\r\n", "-LEADERRUN \x1b[2J\r\n",
		"-ERR unknown command 'HELLO', with args beginning with: '2' 'AUTH' 'default' 'sesame'\r\n", "-" + strings.Repeat("sesame ", 1000) + "\r\n",
		"+OK\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "*16\r\n:1\r\n", ":9007199254740993\r\n", "$5\r\nab\x00\x1b[\r\n", "",
	} {
		for verb := range byte(12) {
			f.Add(verb, []byte(answer))
		}
	}
	f.Fuzz(func(t *testing.T, verb byte, answer []byte) {
		if tooLong.Match(answer) {
			t.Skip()
		}
		s := openWith(t, Options{URL: "redis://:sesame@192.0.2.1", Prefix: prefix, Dialer: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go answerOnce(server, answer, verb%12 < 6)
			return client, nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := request("k")
		l := lease.Lease{Key: "k", Holder: r.Holder, Token: 7, TTL: r.TTL}
		var err error
		switch verb % 6 {
		case 0:
			var granted lease.Lease
			if granted, err = s.Acquire(ctx, r); err == nil && (granted.Token <= 0 || granted.Holder != r.Holder || granted.TTL != r.TTL) {
				t.Errorf("%q grants %+v", answer, granted)
			}
		case 1:
			var renewed lease.Lease
			if renewed, err = s.Renew(ctx, l); err == nil && (renewed.Token != l.Token || renewed.Holder != l.Holder) {
				t.Errorf("%q makes %+v of the lease", answer, renewed)
			}
		case 2:
			err = s.Release(ctx, l, lease.Result{Ran: true})
		case 3:
			err = s.Pass(ctx, "k")
		case 4:
			var status lease.Status
			if status, err = s.Inspect(ctx, "k"); len(status.Value) > lease.MaxValue || len(status.Meta) > lease.MaxMeta || len(status.Runs) > lease.MaxRuns {
				t.Errorf("%q is the status %+v", answer, status)
			}
		case 5:
			err = s.Wait(ctx, "k", 10*time.Millisecond)
		}
		var failure *lease.StoreError
		if errors.As(err, &failure) {
			networktest.ForPeople(t, fmt.Sprint(err), failure.Hint)
		}
		if ctx.Err() != nil {
			t.Errorf("verb %d waits for more than %q", verb%6, answer)
		}
	})
}

// answerOnce greets like a Redis, if asked to, gives one answer and closes the connection.
func answerOnce(server net.Conn, answer []byte, greets bool) {
	defer server.Close()
	request := make([]byte, 64<<10)
	for {
		n, err := server.Read(request)
		if err != nil {
			return
		}
		if greets && bytes.Contains(bytes.ToUpper(request[:n]), []byte("HELLO")) {
			_, _ = server.Write([]byte("*2\r\n$6\r\nserver\r\n$5\r\nredis\r\n"))
			continue
		}
		_, _ = server.Write(answer)
		return
	}
}
