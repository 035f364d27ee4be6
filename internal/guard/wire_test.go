package guard

import (
	"reflect"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestCommandOnTheWire(t *testing.T) {
	for _, c := range []Command{
		{Path: "/bin/true", Args: []string{"true"}, StartBy: 1 << 40},
		{Path: "/bin/printf", Args: []string{"printf", "[%s]", "a b", "", "*"}, Env: []string{"A=", "B=x\ny", ""}, Ender: `{"a":1}`, Shared: true},
	} {
		b := EncodeOrder(OrderStart, -7, &c)
		if OrderKind(get32(b)) != OrderStart || int64(get64(b[8:])) != -7 || int(get32(b[4:])) != len(b)-headerLen {
			t.Errorf("header of %q", b)
		}
		got, ok := decodeCommand(b[headerLen:])
		if len(got.Env) == 0 {
			got.Env = nil
		}
		if !ok || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v became %+v (%t)", c, got, ok)
		}
	}
}

func TestReportOnTheWire(t *testing.T) {
	for _, r := range []Report{{ReportStarted, 4194304}, {ReportGone, -1}, {ReportEnded, 1 << 40}} {
		b := encodeReport(r)
		if len(b) != ReportLen || DecodeReport(b) != r {
			t.Errorf("%+v became %+v", r, DecodeReport(b))
		}
	}
}

func TestEnderOnTheWire(t *testing.T) {
	for _, told := range []string{"x", `{"a":1}`} {
		killBy, got, ok := DecodeEnder(encodeEnder(-7, told))
		if killBy != -7 || string(got) != told || !ok {
			t.Errorf("%q became %d, %q (%t)", told, killBy, got, ok)
		}
	}
	for _, b := range []string{"", "1234567", "12345678"} {
		if _, _, ok := DecodeEnder([]byte(b)); ok {
			t.Errorf("%q counts as a guard's", b)
		}
	}
}

func TestCommandThatIsCutOff(t *testing.T) {
	whole := EncodeOrder(OrderStart, 0, &Command{Path: "p", Args: []string{"a", "b"}})[headerLen:]
	for n := range whole {
		if c, ok := decodeCommand(whole[:n]); ok {
			t.Errorf("%q became %+v", whole[:n], c)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "3": 3, "19": 19, "10485769": 10485769, "10485770": -1, "99999999999999999999": -1, "-3": -1, "3x": -1, "x": -1,
	} {
		if got := number(text); got != want {
			t.Errorf("number(%q) = %d, want %d", text, got, want)
		}
	}
}

// A read may return only a part of an order. Here a datagram socket keeps the parts apart.
func TestReadInParts(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	must.Succeed(t, err)
	defer syscall.Close(ends[0])
	defer syscall.Close(ends[1])
	for _, part := range []string{"seven b", "y", "next"} {
		if !tryWrite(ends[1], []byte(part)) {
			t.Fatalf("%q is not written", part)
		}
	}
	got := make([]byte, 8)
	if !readFull(ends[0], got) || string(got) != "seven by" {
		t.Errorf("read %q", got)
	}
}

func TestEndOfThePipe(t *testing.T) {
	ends := newPipe(t)
	defer syscall.Close(ends[0])
	tryWrite(ends[1], []byte("cut o"))
	syscall.Close(ends[1])
	if got := make([]byte, 8); readFull(ends[0], got) {
		t.Errorf("read %q", got)
	}
}

func TestFullPipe(t *testing.T) {
	ends := newPipe(t)
	defer syscall.Close(ends[0])
	defer syscall.Close(ends[1])
	_ = syscall.SetNonblock(ends[1], true)
	for range 1 << 20 {
		if !tryWrite(ends[1], make([]byte, ReportLen)) {
			return
		}
	}
	t.Error("no end of what a pipe takes")
}

// Whatever bytes arrive, a guard starts only a command with a path and a name.
func FuzzDecodeCommand(f *testing.F) {
	f.Add(EncodeOrder(OrderStart, 0, &Command{Path: "p", Args: []string{"a"}, Env: []string{"E=1"}})[headerLen:])
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255, 'p', 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := decodeCommand(b)
		if !ok {
			return
		}
		if len(c.Args) == 0 {
			t.Errorf("%q decodes to a command without a name", b)
		}
		again, ok := decodeCommand(EncodeOrder(OrderStart, 0, &c)[headerLen:])
		if !ok || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v became %+v", c, again)
		}
	})
}

func newPipe(t *testing.T) (ends [2]int) {
	t.Helper()
	must.Succeed(t, syscall.Pipe(ends[:]))
	return ends
}
