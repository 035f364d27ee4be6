package main

import (
	"strings"
	"testing"
)

func TestShow(t *testing.T) {
	const log = `{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"    noise\n"}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestBad","Output":"    what is wrong\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestIdle","Output":"    no server\n"}
{"Action":"skip","Package":"p","Test":"TestIdle"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
{"Action":"build-output","ImportPath":"q","Output":"q.go:1: syntax\n"}
{"Action":"skip","Package":"empty"}
{"Action":"output","Package":"r","Output":"PASS\n"}
{"Action":"output","Package":"r","Output":"ok  \tr\t2.400s\n"}
{"Action":"pass","Package":"r","Elapsed":2.4}
`
	var out strings.Builder
	skipped, ok, err := show(strings.NewReader(log), &out)
	if want := "    what is wrong\nFAIL\nq.go:1: syntax\nok  \tr\t2.400s\n"; err != nil || ok || out.String() != want {
		t.Errorf("%v, ok %t, it shows\n%s\nwant\n%s", err, ok, out.String(), want)
	}
	if len(skipped) != 1 || skipped[0] != "p TestIdle\n    no server\n" {
		t.Errorf("skipped %q", skipped)
	}
}
