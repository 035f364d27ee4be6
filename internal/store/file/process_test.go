package file

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The test binary starts itself in one of these roles, with the directory as its argument.
var roles = map[string]func(dir string) error{"runs": runRounds, "updates": updateAndUpdate, "takes": takeKey, "denied": isDenied}

const roleVariable = "FILE_STORE_TEST_ROLE"

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "24") // most tests only sleep, so even two processors can run many
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func inRole(t *testing.T, role, dir string) *exec.Cmd {
	self, err := os.Executable()
	must.Succeed(t, err)
	cmd := exec.CommandContext(t.Context(), self, dir)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

const processes, rounds = 8, 12

// A cleaner may remove the lock file at any moment of an update.
func TestProcessesExcludeEachOther(t *testing.T) {
	dir := private(t, t.TempDir())
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for pause := time.Duration(0); ; pause = (pause + 1370*time.Microsecond) % (20 * time.Millisecond) {
			select {
			case <-stop:
				return
			case <-time.After(pause):
				_ = os.Remove(filepath.Join(dir, "k.lock"))
			}
		}
	}()
	excludeEachOther(t, dir)
	close(stop)
	<-stopped
}

// excludeEachOther runs rounds in several processes, and checks what they wrote.
func excludeEachOther(t *testing.T, dir string) {
	var running []*exec.Cmd
	over := make(chan error, processes)
	for range processes {
		cmd := inRole(t, "runs", dir)
		must.Succeed(t, cmd.Start())
		running = append(running, cmd)
		go func() { over <- cmd.Wait() }()
	}
	for range running {
		if err := <-over; err != nil {
			t.Error(err)
			for _, cmd := range running { // a process that has failed leaves its lease to expire
				_ = cmd.Process.Kill()
			}
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "runs.log"))
	must.Succeed(t, err)
	tokens := strings.Fields(string(log))
	if len(tokens) != processes*rounds {
		t.Fatalf("%d runs, want %d", len(tokens), processes*rounds)
	}
	var last int64
	for _, field := range tokens {
		token, err := strconv.ParseInt(field, 10, 64)
		must.Succeed(t, err)
		if token <= last {
			t.Errorf("token %d after %d", token, last)
		}
		last = token
	}
}

// runRounds appends its token to a log in each round, in a way that loses entries or fails
// if another process does the same at the same time.
func runRounds(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	for range rounds {
		l, err := standBy(s)
		if err != nil {
			return err
		}
		inside := filepath.Join(dir, "inside")
		f, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("two holders at a time: %w", err)
		}
		_ = f.Close()
		path := filepath.Join(dir, "runs.log")
		log, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(path, fmt.Appendf(log, "%d\n", l.Token), 0o600); err != nil {
			return err
		}
		if err := os.Remove(inside); err != nil {
			return err
		}
		if err := s.Release(context.Background(), l, lease.Result{Ran: true, Success: true}); err != nil {
			return err
		}
	}
	return nil
}

// standBy asks, and waits to be woken, until it is granted the key. If a wake-up is lost, all
// processes wait although the key is free.
func standBy(s *Store) (lease.Lease, error) {
	const tooLong = time.Minute
	r := request("k")
	for {
		l, err := s.Acquire(context.Background(), r)
		if !errors.As(err, new(*lease.HeldError)) {
			return l, err
		}
		began := time.Now()
		err = s.Wait(context.Background(), "k", tooLong)
		switch {
		case errors.Is(err, lease.ErrNoWakeups): // other programs use all watches
			time.Sleep(time.Millisecond)
		case err != nil:
			return l, err
		case time.Since(began) >= tooLong:
			return l, errors.New("nobody was woken")
		}
	}
}

// A process that is killed at any moment of an update leaves a key that works.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := private(t, t.TempDir())
	s := open(t, dir)
	var last int64
	for round := range 40 {
		cmd := inRole(t, "updates", dir)
		out, err := cmd.StdoutPipe()
		must.Succeed(t, err)
		must.Succeed(t, cmd.Start())
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it has begun
			t.Fatal(err)
		}
		time.Sleep(time.Duration(round) * 137 * time.Microsecond) // another moment in each round
		must.Succeed(t, cmd.Process.Kill())
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()

		r := request("k")
		var l lease.Lease
		for {
			l, err = s.Acquire(t.Context(), r)
			var denied *lease.HeldError
			if !errors.As(err, &denied) {
				break
			}
			if denied.Remaining > victimTTL {
				t.Fatalf("denied for %s, the victim's ttl is %s", denied.Remaining, victimTTL)
			}
			time.Sleep(denied.Remaining)
		}
		must.Succeed(t, err)
		if l.Token <= last {
			t.Fatalf("token %d after %d", l.Token, last)
		}
		last = l.Token
		must.Succeed(t, s.Release(t.Context(), l, lease.Result{Ran: true}))
	}
}

const victimTTL = 20 * time.Millisecond

// updateAndUpdate updates again and again, and writes to its standard output once it has
// begun. It ends by itself if it is not killed.
func updateAndUpdate(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	began := false
	for end := time.Now().Add(time.Minute); time.Now().Before(end); began = true {
		r := request("k")
		r.TTL = victimTTL
		l, err := s.Acquire(context.Background(), r)
		if err != nil {
			return err
		}
		if !began {
			fmt.Println("began")
		}
		if _, err := s.Renew(context.Background(), l); err != nil && !errors.Is(err, lease.ErrLost) {
			return err
		}
		if err := s.Release(context.Background(), l, lease.Result{Ran: true}); err != nil {
			return err
		}
	}
	return nil
}

func takeKey(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	_, err = s.Acquire(context.Background(), request("k"))
	return err
}

// isDenied fails unless the key is held, for the TTL at most.
func isDenied(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	r := request("k")
	_, err = s.Acquire(context.Background(), r)
	if held, ok := errors.AsType[*lease.HeldError](err); !ok || held.Why != lease.Held || held.Remaining > r.TTL {
		return errors.Join(err, fmt.Errorf("not denied for %s at most", r.TTL))
	}
	return nil
}
