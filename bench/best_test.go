package bench

import (
	"strings"
	"testing"
)

// The page names the best whoever it is, and is not taken in by one that is quick since it turns people away.
func TestBestOfKeys(t *testing.T) {
	s := ScenarioResult{Columns: []Column{
		{Name: "goodput", Unit: "%", Better: Higher, Key: true}, {Name: "wait", Unit: "ms", Better: Lower, Key: true},
		{Name: "refused", Unit: "%"}, {Name: "other", Better: Lower},
	}}
	row := func(name, gateway string, values ...Value) {
		s.Rows = append(s.Rows, Row{Case: name, Gateway: gateway, Values: append(values, 1)})
	}
	f := func(want string) {
		t.Helper()
		if got := strings.ReplaceAll(bestLines(&s, "ours"), "\u00a0", " "); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	row("1×", "ours", 0.9, 20, 0.1)
	row("1×", "quick", 0.8, 3, 0.95)
	row("1×", "rival", 0.95, 10, 0.105)
	f("- *goodput*: 1×: rival 95.0 %, ours 90.0 %.\n" +
		"- *wait*: 1×: quick 3.00 ms (95.0 % refused), then rival 10.0 ms, ours 20.0 ms.\n")
	s.Rows[2].Values[1] = 30
	row("2×", "ours", 1, 5, 0)
	row("2×", "rival", 1, 6, 0)
	row("3×", "ours", 1, Unmeasured(), 0)
	row("3×", "rival", 1, 6, 0)
	f("- *goodput*: 1×: rival 95.0 %, ours 90.0 %; 2×: ours and rival 100 %; 3×: ours and rival 100 %.\n" +
		"- *wait*: 1×: quick 3.00 ms (95.0 % refused), ours 20.0 ms; 2×: ours 5.00 ms.\n")
	s.KeyCases = []string{"2×"}
	f("- *goodput*: 2×: ours and rival 100 %.\n- *wait*: 2×: ours 5.00 ms.\n")
	s.KeyCases, s.Rows = nil, s.Rows[:1]
	f("")
}
