package guard

import (
	"reflect"
	"testing"
)

func TestCommandOnTheWire(t *testing.T) {
	for _, c := range []Command{
		{Path: "/bin/true", Args: []string{"true"}, StartBy: 1 << 40},
		{Path: "/bin/printf", Args: []string{"printf", "[%s]", "a b", "", "*"}, Env: []string{"A=", "B=x\ny", ""}, Group: 4194304},
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

// Whatever arrives, a guard starts only what decodes to a path and a name.
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
