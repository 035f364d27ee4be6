//go:build linux

package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

func TestUnreachable(t *testing.T) {
	networktest.Unreachable(t, "mysql at h:3306", "the store's URL", func(dial network.Dial) *Store {
		return openWith(t, Options{URL: "mysql://cron:sesame@h/db", Dialer: dial})
	}, networktest.CallsOf)
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	b := newBackend(t)
	networktest.AllEndWithContext(t, networktest.Silent(t, b.Addr, b.Stop, b.Cont, func(addr string) *Store {
		return openWith(t, Options{URL: "mysql://admin:s3cret@" + addr + "/jobs"})
	}), networktest.CallsOf)
}

// What a real server refuses, and what is made of it.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	for i, c := range []struct {
		name       string
		user       string // "": a user with all rights
		database   string
		prepare    string // SQL
		permanent  bool
		says, hint string
	}{
		{name: "no right to the database", user: "cron", permanent: true, says: "(1044)", hint: "correct the name of the database"},
		{name: "a narrow column", prepare: strings.Replace(createTable, "mediumtext", "varchar(9)", 1), permanent: true, says: "is not leaderrun's: Data too long", hint: "choose another database"},
		{name: "a trigger", prepare: createTable + "; CREATE TRIGGER t BEFORE INSERT ON leaderrun_leases FOR EACH ROW SIGNAL SQLSTATE '45000' SET message_text = 'no'", permanent: true, says: "no (1644)", hint: "trigger"},
		{name: "init_connect fails", user: "cron", prepare: "GRANT ALL ON jobs.* TO cron; SET GLOBAL init_connect = 'SELECT 1 FROM nowhere'", says: "(1184)", hint: "init_connect"},
		{name: "read-only", prepare: "SET GLOBAL read_only = 1", says: "it is read-only", hint: "name the server that takes writes"},
		{name: "no connections", user: "cron", prepare: createTable + "; GRANT SELECT, INSERT, UPDATE ON jobs.leaderrun_leases TO cron; ALTER USER cron WITH MAX_QUERIES_PER_HOUR 1", says: "has exceeded the 'max_queries_per_hour' resource", hint: "this user's limits"},
		{name: "locked", user: "cron", prepare: "ALTER USER cron ACCOUNT LOCK", permanent: true, says: "this account is locked (4151)", hint: "unlock this user"},
		{name: "expired password", user: "cron", prepare: "GRANT SELECT ON jobs.* TO cron; ALTER USER cron PASSWORD EXPIRE", permanent: true, says: "(1820)", hint: "give this user a new password"}, // it refuses not the login, but all statements
	} {
		t.Run(c.name, func(t *testing.T) {
			b.do(t, "SET GLOBAL read_only = 0, init_connect = ''; DROP TABLE IF EXISTS leaderrun_leases; DROP USER IF EXISTS cron; CREATE USER cron IDENTIFIED BY 'sesame'; "+c.prepare)
			url := b.URL
			if c.user != "" {
				url = networktest.As(t, b.URL, c.user)
			}
			if c.database != "" {
				url = strings.Replace(url, "/jobs", "/"+c.database, 1)
			}
			r := request(fmt.Sprint("k", i))
			s := openWith(t, Options{URL: url})
			_, err := s.Acquire(bounded(t), r)
			for settling := new(lease.SettlingError); errors.As(err, &settling); _, err = s.Acquire(bounded(t), r) {
			}
			networktest.WantError(t, err, c.permanent, c.says, c.hint)
		})
	}
}

// A restart only makes some of the holder's renewals fail: the server keeps its data. For
// candidates it is another server all the same, which may lack data.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	released := grant(t, s, request("released"))
	must.Succeed(t, s.Release(bounded(t), released, lease.Result{}))
	b.Kill()
	networktest.WantRefused(t, networktest.Calls{"renew": func(ctx context.Context) error { _, err := b.open(t).Renew(ctx, l); return err }}, "mysql at "+b.Addr)
	networktest.NotRenewed(t, s, l)
	time.Sleep(time.Second) // the start of a server is known in whole seconds
	b.Restart()
	renewed, err := s.Renew(bounded(t), l)
	for range 2 {
		if err == nil {
			break
		}
		renewed, err = s.Renew(bounded(t), l)
	}
	if err != nil || renewed.Reasserted || renewed.Token != l.Token {
		t.Errorf("renew: %+v, %v", renewed, err)
	}
	denied(t, b.open(t), request("k"))
	networktest.Settles(t, b.open(t), request("released"), lease.SettleRestarted)
}

func TestClose(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	grant(t, s, request("k"))
	networktest.WantClosed(t, s, networktest.CallsOf(s))
	awaits(t, "end of the connections", func() bool { return b.sessions(t) == "0" })
}

// If another transaction locks the row, a renewal fails after a second, and its error names
// the cause.
func TestLockedRow(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	locked := make(chan error, 1)
	go func() {
		_, err := b.Do("BEGIN; SELECT * FROM leaderrun_leases FOR UPDATE; DO GET_LOCK('locked', 0); DO SLEEP(3)")
		locked <- err
	}()
	awaits(t, "lock", func() bool { return b.do(t, "SELECT IS_USED_LOCK('locked') IS NOT NULL") == "1" })
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "Lock wait timeout exceeded; try restarting transaction (1205)", "another transaction locks the table")
	must.Succeed(t, <-locked)
	renew(t, s, l) // after the lock
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	servers := map[string]backend{"none": newBackend(t)}
	for _, name := range []string{"server", "expired"} {
		servers[name] = newBackend(t, "--ssl-ca="+certs.File("ca.pem"), "--ssl-cert="+certs.File(name+".pem"), "--ssl-key="+certs.File(name+".key"))
	}
	servers["server"].do(t, "CREATE USER cert REQUIRE X509; GRANT ALL ON jobs.* TO cert; CREATE USER tls IDENTIFIED BY 's3cret' REQUIRE SSL; GRANT ALL ON jobs.* TO tls")
	ca, client := "?ca="+certs.File("ca.pem"), "&cert="+certs.File("client.pem")+"&key="+certs.File("client.key")
	for _, x := range []struct {
		name, server, user, parameters string
		says, hint                     string // empty: it is granted
	}{
		{name: "unsaid", server: "server"},
		{name: "insecure", server: "expired", parameters: "?insecure=true"},
		{name: "a user who needs it", server: "server", user: "tls:s3cret", parameters: ca},
		{name: "certificate", server: "server", user: "cert", parameters: ca + client},
		{name: "certificate needed", server: "server", user: "cert", parameters: ca, says: "(1045)", hint: "correct the user"},
		{name: "TLS needed", server: "server", user: "tls:s3cret", says: "(1045)", hint: "correct the user"},
		{name: "a foreign certificate", server: "server", user: "cert", parameters: ca + "&cert=" + certs.File("foreign.pem") + "&key=" + certs.File("foreign.key"), says: "it refuses this side of TLS", hint: "cert=FILE&key=FILE"},
	} {
		t.Run(x.name, func(t *testing.T) {
			user := "admin:s3cret"
			if x.user != "" {
				user = x.user
			}
			s := openWith(t, Options{URL: "mysql://" + user + "@" + servers[x.server].Addr + "/jobs" + x.parameters})
			r := request(strings.ReplaceAll(x.name, " ", "-"))
			if x.says == "" {
				grant(t, s, r)
				return
			}
			_, err := s.Acquire(bounded(t), r)
			for range 20 {
				// With TLS 1.3 a server refuses a certificate after the handshake. The driver's
				// next write may fail before it reads the reason; then the next attempt shows it.
				if failure, ok := errors.AsType[*lease.StoreError](err); !ok || failure.Permanent {
					break
				}
				_, err = s.Acquire(bounded(t), r)
			}
			networktest.WantError(t, err, true, x.says, x.hint)
		})
	}
}

// While a database is dropped and made anew, candidates that may create the table go on standing by.
func TestDatabaseIsMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.do(t, "CREATE DATABASE nightly; CREATE USER cron IDENTIFIED BY 'sesame'; GRANT ALL ON nightly.* TO cron")
	open := func() networktest.Store {
		return openWith(t, Options{URL: "mysql://cron:sesame@" + b.Addr + "/nightly"})
	}
	drop, restore := func() { b.do(t, "DROP DATABASE nightly; KILL USER cron") }, func() { b.do(t, "CREATE DATABASE nightly") }
	networktest.LoginIsReadAgain(t, open, drop, restore, "(1049)", "create that database")
}

// Whatever the server's defaults are, each statement is its own transaction.
func TestRightsComeBack(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.do(t, createTable+"; CREATE USER cron IDENTIFIED BY 'sesame'; GRANT USAGE ON jobs.* TO cron")
	give := func() { b.do(t, "GRANT SELECT, INSERT, UPDATE ON jobs.leaderrun_leases TO cron") }
	give()
	open := func() networktest.Store { return openWith(t, Options{URL: networktest.As(t, b.URL, "cron")}) }
	networktest.RightsComeBack(t, open, b.open(t), func() { b.do(t, "REVOKE UPDATE, SELECT ON jobs.leaderrun_leases FROM cron") }, give, "denied")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	b := newBackend(t, "--autocommit=0", "--transaction-isolation=READ-UNCOMMITTED", "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "--character-set-server=latin1", "--skip-character-set-client-handshake")
	s := b.open(t)
	r := request("k")
	r.Meta = `{"command":"é\\'\"\n☃𝄞"}`
	l := grant(t, s, r)
	back, err := b.open(t).Renew(bounded(t), l)
	if err != nil || back.Meta != r.Meta {
		t.Errorf("renewed as %q, %v", back.Meta, err)
	}
	if n := b.do(t, "SELECT COUNT(*) FROM information_schema.innodb_trx"); n != "0" {
		t.Errorf("%s transactions are open", n)
	}
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
	if _, err := b.open(t).Acquire(bounded(t), request("k")); err != nil {
		t.Errorf("acquire: %v", err)
	}
}

// Another kind of server grants nothing and causes no panic, and no message shows the
// password.
func TestHostileAnswers(t *testing.T) {
	const hello = "\x4a\x00\x00\x00\x0a5.5.5-10.11\x00\x01\x00\x00\x00abcdefgh\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00abcdefghijkl\x00mysql_native_password\x00"
	const ok = "\x07\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00"
	for _, answers := range [][]string{
		{""}, {"\r\n"}, {"HTTP/1.1 400 Bad Request\r\n\r\n"}, {"SSH-2.0-OpenSSH_9.2\r\n"}, {"\x00\x00\x00\x00"}, {"\x01\x00\x00\x00\x0a"}, {"\x03\x00\x00\x00\x0aab"},
		{"\xff\xff\xff\x00"}, {"\x05\x00\x00\x00\xff\x15\x04#2"}, {"\x10\x00\x00\x00\xff\x15\x04#28000sesame\x1b\n"},
		{hello, ""}, {hello, "\x01\x00\x00\x02\xfe"}, {hello, "\x02\x00\x00\x02\x01\x04"}, {hello, ok, ""}, {hello, ok, "\x01\x00\x00\x01\x01"}, {hello, ok, "\x09\x00\x00\x01\xfc\xff\xff\xff\xff\xff\xff\xff\xff"},
		{hello, ok, "\x07\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"},
	} {
		t.Run(fmt.Sprintf("%.30q", answers), func(t *testing.T) {
			addr := networktest.Serve(t, func(c net.Conn) {
				buf := make([]byte, 64<<10)
				for i, text := range answers {
					if i > 0 {
						if _, err := c.Read(buf); err != nil {
							return
						}
					}
					_, _ = c.Write([]byte(text))
				}
			})
			networktest.WantNoAnswers(t, openWith(t, Options{URL: "mysql://cron:sesame@" + addr + "/db"}))
		})
	}
}

// A call's time may end just as its answer arrives: the call has succeeded, but the driver
// closes the connection. The next call must not get that one, even if the kernel does not
// know of it yet.
func TestTimeEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	s := openWith(t, Options{URL: newBackend(t).URL, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return struct{ net.Conn }{c}, err // the pool cannot ask the kernel about this one
	}})
	ask := func(then func(*conn)) error {
		return s.conns.do(bounded(t), "ask", func(c *conn) error {
			_, err := c.query(t.Context(), "SELECT 1")
			then(c)
			return err
		})
	}
	must.Succeed(t, errors.Join(ask(func(c *conn) { _ = c.Close() }), ask(func(*conn) {})))
}

// A server ends sessions that are idle for its wait_timeout; proxies may do so sooner.
func TestCutWhileIdle(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	networktest.CutWhileIdle(t, func(dial network.Dial) networktest.Store {
		return openWith(t, Options{URL: b.URL, Dialer: dial})
	})
}

// If a server has ended an idle session, the next use of it says so; standbys go on.
func TestIdleSessionEnds(t *testing.T) {
	k := known(t.Context(), &mysql.MySQLError{Number: 4031, Message: "disconnected because of inactivity"})
	if k.Permanent || !strings.Contains(k.Hint, "wait_timeout") {
		t.Errorf("%+v", k)
	}
}

// The server's clock may be set to a time before the server's start, as when a machine boots with
// a wrong one: then Uptime is negative, and shown as a number without a sign.
func TestClockBeforeTheStart(t *testing.T) {
	b := newBackend(t, "--init-connect=SET timestamp = UNIX_TIMESTAMP() - 1000") // not for administrators
	b.do(t, "CREATE USER cron IDENTIFIED BY 'sesame'; GRANT ALL ON jobs.* TO cron")
	s := openWith(t, Options{URL: networktest.As(t, b.URL, "cron")})
	_, err := s.Acquire(bounded(t), request("k"))
	if settling, ok := errors.AsType[*lease.SettlingError](err); !ok { // a fresh key settles, on this clock for ever
		t.Errorf("%v, %v", settling, err)
	}
}
