package bench

import (
	"context"
	"math"
	"strings"
	"testing"
)

func TestScenariosAreWellFormed(t *testing.T) {
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
		for _, a := range newAccounts() {
			known[a.Name] = true
		}
		for _, a := range c.accounts {
			if !known[a] {
				t.Errorf("scenario %s: there is no account %q", c.Name, a)
			}
		}
	}
}

func TestThresholds(t *testing.T) {
	f := func(th threshold, quick bool, observed []float64, worst float64, want string, met bool) {
		t.Helper()
		if v := th.worst(observed); float64(v) != worst || th.want(quick) != want || th.met(float64(v), quick) != met {
			t.Errorf("%s of %v: %v, %q, %v", th.name, observed, v, th.want(quick), th.met(float64(v), quick))
		}
	}
	nan := math.NaN()
	f(minGoodput, false, []float64{0.99, nan, 0.93, 1}, 0.93, "at least 95 %", false)
	f(minGoodput, true, []float64{0.99, 0.93}, 0.93, "at least 80 %", true)
	f(maxRefusalTime, false, []float64{3, 9, 5}, 9, "at most 10 ms", true)
	f(maxQuietTTFT, false, []float64{1.6}, 1.6, "at most 1.5 ×", false)
	f(noLeaks, false, []float64{0, 2, 0}, 2, "none", false)
	f(noLeaks, true, []float64{0}, 0, "none", true)
	if v := noLeaks.worst([]float64{nan}); v.Measured() {
		t.Errorf("the worst of unmeasured values is %v", v)
	}
}

// Goodput above the capacity means that the capacity is unknown: all thresholds are listed, and none is measured.
func TestNoVerdictWithoutCapacity(t *testing.T) {
	c := loadScenario()
	for goodput, judged := range map[float64]bool{1.05: true, 1.2: false} {
		f := findings{by: &Gateway{Name: "remote", Judged: true}, observed: map[string][]float64{}}
		for range 2 {
			f.observe(minGoodput, 0.98)
			f.checkCapacity(goodput)
		}
		results := c.judge(f, false)
		if len(results) != len(c.thresholds) || results[0].Got.Measured() != judged || results[0].Passed != judged {
			t.Errorf("goodput %v: %+v", goodput, results)
		}
		if !judged && (len(f.notes) != 1 || !strings.Contains(f.notes[0], "too low, since goodput reached 120 % of it")) || judged && len(f.notes) > 0 {
			t.Errorf("goodput %v: notes %q", goodput, f.notes)
		}
	}
}

// The table of a scenario cannot have a figure without a column.
func TestRowsHaveColumns(t *testing.T) {
	c := loadScenario()
	f := findings{scenario: &c, by: &Gateway{Name: "g"}}
	f.addRow("1×", figures{"goodput": 0.5})
	if v := f.rows[0].Values; len(v) != len(c.columns) || v[0] != 0.5 || v[1].Measured() {
		t.Errorf("the row is %v", v)
	}
	defer func() {
		if recover() == nil {
			t.Error("a figure without a column was added")
		}
	}()
	f.addRow("1×", figures{"speed": 1})
}

func TestRunKnowsItsScenarios(t *testing.T) {
	_, err := Run(context.Background(), Options{Scenarios: []string{"flod"}})
	if err == nil || !strings.Contains(err.Error(), `unknown scenario "flod"; there are load, flood`) {
		t.Errorf("got %v", err)
	}
}
