package observe

import "testing"

// Any file of metrics is refused, or is the same after reading and writing it.
func FuzzTextfile(f *testing.F) {
	const labels = `{key_class="a",key="a:b"}`
	var all values
	for i := range all {
		all.set(i, float64(i))
	}
	f.Add(format(all, labels))
	f.Add([]byte("leaderrun_of_another_version" + labels + " 1\n"))
	f.Add([]byte("# HELP x\n" + metrics[0].name + labels + " 1e400\n"))
	f.Add([]byte(metrics[0].name + labels + " NaN\n"))
	f.Add([]byte(metrics[0].name + labels + " -0\n"))
	f.Add([]byte(metrics[0].name + labels + " 0x1p4 7\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parse(text, labels)
		if err != nil {
			if v != (values{}) {
				t.Errorf("%q was refused and counts as %v", text, v)
			}
			return
		}
		if again, err := parse(format(v, labels), labels); err != nil || again != v {
			t.Errorf("%q reads as %v, which reads as %v, %v", text, v, again, err)
		}
	})
}
