package bench

import (
	"reflect"
	"strings"
	"testing"
)

func TestMeasure(t *testing.T) {
	f := func(v Value, unit, want string) {
		t.Helper()
		if got := measure(v, unit); strings.ReplaceAll(got, "\u00a0", " ") != want {
			t.Errorf("%v %s is written %q, want %q", v, unit, got, want)
		}
	}
	f(Unmeasured(), "ms", "–")
	f(0, "ms", "0 ms")
	f(0, "", "0")
	f(3, "", "3")
	f(12345, "", "12345")
	f(0.9984, "", "0.998")
	f(0.9996, "", "1.00")
	f(0.9953, "%", "99.5 %")
	f(0.99961, "%", "100 %")
	f(0.0432, "%", "4.3 %")
	f(0.00043, "%", "0.0430 %")
	f(4.5, "%", "450 %")
	f(0.4213, "ms", "0.421 ms")
	f(9.996, "ms", "10.0 ms")
	f(31234.6, "ms", "31235 ms")
	f(-12345.6, "ms", "-12346 ms")
	f(1.5, "×", "1.50 ×")
	f(1e-9, "s", "1e-09 s")
}

func TestBest(t *testing.T) {
	nan := Unmeasured()
	s := ScenarioResult{Columns: []column{{Name: "up", Better: higher}, {Name: "down", Better: lower}, {Name: "neither"}, {Name: "all", Better: lower}},
		Rows: []Row{
			{Gateway: "a", Case: "1", Values: []Value{0.99800, 5, 1, 0}},
			{Gateway: "b", Case: "1", Values: []Value{0.99801, 7, 2, 0}}, // reads the same
			{Gateway: "c", Case: "1", Values: []Value{0.5, nan, 3}},
			{Gateway: "a", Case: "2", Values: []Value{0.1, nan, 1, 1}}, // alone
		}}
	var got []string
	for _, rows := range s.cases() {
		for _, j := range rows {
			line := ""
			for k := range s.Columns {
				line += s.cell(rows, j, k, dialect{bold: func(text string) string { return "*" + text }}) + " "
			}
			got = append(got, line)
		}
	}
	if want := []string{"*0.998 *5 1 0 ", "*0.998 7 2 0 ", "0.500 – 3 – ", "0.100 – 1 1 "}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Cases of which something else was measured have a table of their own.
func TestTableGroups(t *testing.T) {
	nan := Unmeasured()
	s := ScenarioResult{Columns: make([]column, 4), Rows: []Row{
		{Case: "all", Values: []Value{1, 1, nan, nan}},
		{Case: "quiet", Values: []Value{nan, nan, 1, 1}},
		{Case: "loud", Values: []Value{nan, nan, 1, nan}},
		{Case: "quiet", Values: []Value{nan, nan, nan, 1}},
	}}
	want := []tableGroup{{[][]int{{0}}, []int{0, 1}}, {[][]int{{1, 3}, {2}}, []int{2, 3}}}
	if got := s.tableGroups(); !reflect.DeepEqual(got, want) {
		t.Errorf("tables are %v, want %v", got, want)
	}
}

// The page names the best gateway, whichever it is, and says so if one is quick because it refuses requests.
func TestBestLines(t *testing.T) {
	s := ScenarioResult{Columns: []column{
		{Name: "goodput", Unit: "%", Better: higher, Key: true}, {Name: "wait", Unit: "ms", Better: lower, Key: true},
		{Name: "refused", Unit: "%"}, {Name: "other", Better: lower},
	}}
	row := func(name, gateway string, values ...Value) {
		s.Rows = append(s.Rows, Row{Case: name, Gateway: gateway, Values: append(values, 1)})
	}
	f := func(want ...string) {
		t.Helper()
		if got := strings.ReplaceAll(strings.Join(s.bestLines("ours"), "\n"), "\u00a0", " "); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
	row("1×", "ours", 0.9, 20, 0.1)
	row("1×", "quick", 0.8, 3, 0.95)
	row("1×", "rival", 0.95, 10, 0.105)
	f("*goodput*: 1×: rival 95.0 %, ours 90.0 %.",
		"*wait*: 1×: quick 3.00 ms (95.0 % refused), then rival 10.0 ms, ours 20.0 ms.")
	s.Rows[2].Values[1] = 30
	row("2×", "ours", 1, 5, 0)
	row("2×", "rival", 1, 6, 0)
	row("3×", "ours", 1, Unmeasured(), 0)
	row("3×", "rival", 1, 6, 0)
	f("*goodput*: 1×: rival 95.0 %, ours 90.0 %; 2×: all 100 %; 3×: all 100 %.",
		"*wait*: 1×: quick 3.00 ms (95.0 % refused), ours 20.0 ms; 2×: ours 5.00 ms.")
	s.KeyCases = []string{"2×"}
	f("*goodput*: 2×: all 100 %.", "*wait*: 2×: ours 5.00 ms.")
	s.KeyCases, s.Rows = nil, s.Rows[:1]
	f()
}

func TestQuantiles(t *testing.T) {
	var x []float64
	for i := range 10000 {
		x = append(x, float64(9999-i))
	}
	if q := quantiles(x); len(q) != 400 || q[0] != 0 || q[399] != 9999 {
		t.Errorf("%d of them, from %v to %v", len(q), q[0], q[len(q)-1])
	}
	if q := quantiles([]float64{2, 1}); !reflect.DeepEqual(q, []Value{1, 2}) {
		t.Errorf("got %v", q)
	}
	if q := quantiles(nil); len(q) != 0 {
		t.Errorf("got %v", q)
	}
}
