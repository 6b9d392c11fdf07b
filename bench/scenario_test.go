package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// What renders a report relies on each row having a value for each column, each plot being filled, and names being
// unique.
func TestContestsAreWellFormed(t *testing.T) {
	names := map[string]bool{}
	for _, c := range Scenarios() {
		if names[c.Name] || c.Name == "" || c.Title == "" || !strings.HasSuffix(c.question, "?") {
			t.Errorf("scenario %q: %q, %q", c.Name, c.Title, c.question)
		}
		names[c.Name] = true
		for _, z := range []preset{fullRun, quickRun} {
			if text := c.method(z); strings.Contains(text, "%!") || text == "" {
				t.Errorf("scenario %s: method %q", c.Name, text)
			}
			if c.duration(z) <= 0 {
				t.Errorf("scenario %s lasts %v", c.Name, c.duration(z))
			}
		}
		known := map[string]bool{}
		for _, a := range accounts() {
			known[a.Name] = true
		}
		for _, a := range c.accounts {
			if !known[a] {
				t.Errorf("scenario %s: there is no account %q", c.Name, a)
			}
		}
	}
}

func TestMarks(t *testing.T) {
	f := func(m threshold, quick bool, got []float64, worst float64, want string, passed bool) {
		t.Helper()
		v := m.worst(got)
		text, ok := m.want(quick)
		if float64(v) != worst || text != want || ok(float64(v)) != passed {
			t.Errorf("%s of %v: %v, %q, %v", m.name, got, v, text, ok(float64(v)))
		}
	}
	nan := float64(Unmeasured())
	f(goodputMark, false, []float64{0.99, nan, 0.93, 1}, 0.93, "at least 95 %", false)
	f(goodputMark, true, []float64{0.99, 0.93}, 0.93, "at least 80 %", true)
	f(refuseMark, false, []float64{3, 9, 5}, 9, "at most 10 ms", true)
	f(quietMark, false, []float64{1.6}, 1.6, "at most 1.5 ×", false)
	f(leakedMark, false, []float64{0, 2, 0}, 2, "none", false)
	f(leakedMark, true, []float64{0}, 0, "none", true)
	if m := leakedMark.worst([]float64{nan}); m.Measured() {
		t.Errorf("the worst of what was not measured is %v", m)
	}
}

func TestRunKnowsItsScenarios(t *testing.T) {
	_, err := Run(context.Background(), Options{Scenarios: []string{"flod"}})
	if !errors.Is(err, ErrUnknownScenario) || !strings.Contains(err.Error(), "flood") {
		t.Errorf("got %v", err)
	}
}
