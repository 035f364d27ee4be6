package leasefile

import (
	"testing"
	"time"
)

// Read accepts only lines that were written by a File.
func FuzzLine(f *testing.F) {
	const boot = "0f0e0d0c-0000-4000-8000-000000000000"
	f.Add(line(Lease{Token: 1700000000000, Holder: "host/1/" + "00112233445566778899aabbccddeeff", StopBy: time.Hour}, boot))
	f.Add(line(Lease{Token: 1, Holder: "h", StopBy: 0}, boot))
	f.Add(line(Lease{Token: -1, Holder: "h", StopBy: -1}, "another"))
	f.Add("1 h 1 " + boot + " 00000000\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if l, ok := parse(text, boot); ok != (line(l, boot) == text && l.Holder != "") {
			t.Errorf("%q is read as %+v, %t", text, l, ok)
		}
	})
}
