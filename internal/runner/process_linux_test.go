package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

const again = "TEST_IN_A_PROCESS_OF_ITS_OWN"

// ownProcess returns a command that runs this test in its own process; in that process it
// returns nil.
func ownProcess(t *testing.T) *exec.Cmd {
	t.Helper()
	if os.Getenv(again) != "" {
		return nil
	}
	self, err := os.Executable()
	must.Succeed(t, err)
	cmd := exec.Command(self, "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), again+"=yes")
	return cmd
}

// The command has the descriptors that leaderrun's caller opened, and no others. The guard's pipes
// are the first two in a row that the caller has not opened.
func TestDescriptorsAreTheCallers(t *testing.T) {
	const script = `for fd in 0 1 2 3 4 5 6; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; read line; echo $line; echo to stderr >&2`
	if os.Getenv(again) != "" {
		fmt.Println(unused(2))
		_, reports := start(t, far(), script)
		next(t, reports, Started)
		if gone := last(t, reports); gone.Status != 0 {
			t.Errorf("%+v", gone)
		}
		return
	}
	for _, test := range []struct {
		opened []int
		pipes  int
	}{{nil, 3}, {[]int{3}, 4}, {[]int{4}, 5}, {[]int{5}, 3}, {[]int{3, 5}, 6}, {[]int{3, 4, 6}, 7}} {
		cmd := ownProcess(t)
		cmd.Stdin = strings.NewReader("from stdin\n")
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		want := fmt.Sprintf("%d\n0\n1\n2\n", test.pipes)
		for fd := 3; fd <= 6; fd++ {
			var file *os.File
			if slices.Contains(test.opened, fd) {
				file = os.Stdin
				want += fmt.Sprintln(fd)
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, file)
		}
		err := cmd.Run()
		if got := out.String(); err != nil || !strings.HasPrefix(got, want+"from stdin\n") || stderr.String() != "to stderr\n" {
			t.Errorf("with %v: %v\n%s\n%s", test.opened, err, got, stderr.String())
		}
	}
}

// failing is a pipe that takes three bytes of a write and returns an error, until it has all.
type failing struct {
	got    strings.Builder
	err    error
	closed chan struct{}
}

func (f *failing) Write(b []byte) (int, error) {
	n, _ := f.got.Write(b[:min(3, len(b))])
	if n < len(b) {
		return n, f.err
	}
	return n, nil
}

func (f *failing) Close() error { close(f.closed); return nil }

// An order reaches the guard whole and once, even if the kernel lacks memory for a moment.
func TestOrdersOutlastErrors(t *testing.T) {
	for _, test := range []struct {
		err  error
		over bool // before the first order
		want string
	}{
		{syscall.ENOMEM, false, "an order"}, {syscall.EPIPE, false, "an "}, {syscall.ENOMEM, true, ""},
	} {
		pipe := &failing{err: test.err, closed: make(chan struct{})}
		o := outbox{file: pipe, filled: make(chan struct{}, 1)}
		over := make(chan struct{})
		if test.over {
			close(over)
		} else {
			o.put([]byte("an order"))
		}
		go o.drain(over)
		if errors.Is(test.err, syscall.ENOMEM) && !test.over {
			await(t, func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.queue == nil })
			o.put([]byte("")) // is read once everything before it is written
			await(t, func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.queue == nil && len(o.filled) == 0 })
			close(over)
		}
		<-pipe.closed
		if got := pipe.got.String(); got != test.want {
			t.Errorf("%v: the guard read %q, want %q", test.err, got, test.want)
		}
	}
}
