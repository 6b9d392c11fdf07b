package bench

import "fmt"

// threshold is a limit that a judged gateway has to keep.
type threshold struct {
	name, unit string
	max        bool    // the limit is an upper one
	limit      float64 // in the unit; for "%" a share
	quick      float64 // the limit in a quick run, which is too short for the other; 0: the same
}

// The thresholds of more than one scenario.
var (
	minGoodput     = threshold{name: "goodput", unit: "%", limit: 0.95, quick: 0.8}
	minJain        = threshold{name: "Jain's index of service", limit: 0.98, quick: 0.9}
	maxQuietTTFT   = threshold{name: "a quiet account's time to first token from the next free slot, relative to alone", unit: "×", max: true, limit: 1.5, quick: 6}
	maxQuietWait   = threshold{name: "a quiet account's wait from the next free slot, relative to alone", unit: "×", max: true, limit: 1.5, quick: 60}
	maxRefusalTime = threshold{name: "time to refuse, p99", unit: "ms", max: true, limit: 10, quick: 50}
	noLeaks        = threshold{name: "leaked", max: true}
)

func (t threshold) bound(quick bool) float64 {
	if quick && t.quick != 0 {
		return t.quick
	}
	return t.limit
}

func (t threshold) met(v float64, quick bool) bool {
	if t.max {
		return v <= t.bound(quick)
	}
	return v >= t.bound(quick)
}

// want says what the threshold demands.
func (t threshold) want(quick bool) string {
	limit, word := t.bound(quick), "at least"
	switch {
	case t.max && limit == 0:
		return "none"
	case t.max:
		word = "at most"
	}
	switch t.unit {
	case "":
		return fmt.Sprintf("%s %g", word, limit)
	case "%":
		return fmt.Sprintf("%s %g %%", word, 100*limit)
	}
	return fmt.Sprintf("%s %g %s", word, limit, t.unit)
}

// worst is the value that is farthest from what is wanted, of those that were measured.
func (t threshold) worst(observed []float64) Value {
	worst := Unmeasured()
	for _, v := range observed {
		if Value(v).Measured() && (!worst.Measured() || t.max == (v > float64(worst))) {
			worst = Value(v)
		}
	}
	return worst
}
