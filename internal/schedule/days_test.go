package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What Debian's cron(8) and Kubernetes read differently is refused, and the cure is accepted.
func TestDaysThatDependOnTheReader(t *testing.T) {
	for text, cure := range map[string]string{
		"0 3 */2 * 1":     "1-31/2",
		"0 3 */2,5 * 1-5": "1-31/2,5",
		"0 3 1 * */2":     "0-6/2",
		"0 3 1,15 * */3":  "0-6/3",
		"0 3 */2 * */2":   "1-31/2",
		"0 3 5,* * 1":     "write * for one",
		"0 3 1 * 2,*":     "write * for one",
		"0 3 1-31/2 * 1":  "",
		"0 3 1 * 0-6/2":   "",
		"0 3 */2 * *":     "",
		"0 3 * * */2":     "",
		"0 3 */1 * 1":     "",
		"0 3 *,5 * 1":     "",
		"0 3 1,15 * 5":    "",
		"*/5 */2 1 * 1":   "",
		"0 3 1-31 * 1":    "",
		"@weekly":         "",
		"0 3 */2 * 0-7":   "1-31/2",
		"0 3 29 2 */2":    "0-6/2",
		"0 3 1 * 7":       "",
	} {
		_, err := Parse(text)
		ambiguous, refused := errors.AsType[*AmbiguousError](err)
		if refused != (cure != "") || !refused && err != nil || refused && !strings.Contains(ambiguous.Hint(), cure) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// 7 is Sunday for cron(8).
func TestSunday(t *testing.T) {
	for text, same := range map[string]string{
		"7": "0", "1-7": "*", "5-7": "5,6,0", "0-7": "*", "1,7": "0,1", "1-7/2": "0,1,3,5", "2-7/5": "0,2", "7-7": "0", "mon,7": "0,1", "6-7,2": "0,2,6",
	} {
		got, err := Parse("0 3 * * " + text)
		want, wantErr := Parse("0 3 * * " + same)
		if err != nil || wantErr != nil || !slices.Equal(got.days(got.includes), want.days(want.includes)) || got.String() != "0 3 * * "+text {
			t.Errorf("%s: %v, %v", text, err, wantErr)
		}
	}
	for _, text := range []string{"8", "1-8", "7/2", "7-1", "17", "1-7/0", "1-7/x", "-7"} {
		if _, err := Parse("0 3 * * " + text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
