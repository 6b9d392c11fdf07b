package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Format is the version of the JSON that a Report is written as. It grows with a change that readers would stumble over; a
// new field is none.
const Format = 1

// Report is everything that one run has found.
type Report struct {
	Format    int              `json:"format"` // see Format
	Began     time.Time        `json:"began"`
	Seconds   float64          `json:"seconds"` // how long it took
	Quick     bool             `json:"quick"`   // a short run: its figures are rough, its marks are no verdict
	Machine   Machine          `json:"machine"`
	Gateways  []About          `json:"gateways"`
	Scenarios []ScenarioResult `json:"scenarios"`
}

// Machine is where it ran: engines, gateways and load all share it.
type Machine struct {
	Cores   int    `json:"cores"`
	CPU     string `json:"cpu,omitempty"` // the model, where it is known
	OS      string `json:"os"`
	Go      string `json:"go"`
	Program string `json:"program"` // this program's version
	Commit  string `json:"commit"`  // what it was built from, with +dirty if that was changed; empty: not known
}

// About says what a gateway is and how it is set up.
type About struct {
	Name   string `json:"name"`
	Text   string `json:"about"`
	Judged bool   `json:"judged,omitempty"` // the marks are for this one
}

// ScenarioResult is what one scenario has found.
type ScenarioResult struct {
	Name       string            `json:"name"`     // as -scenario takes it
	Title      string            `json:"title"`    // a line
	Question   string            `json:"question"` // what it asks, as a question
	Method     string            `json:"method"`   // what was sent, in words with numbers; paragraphs are separated by empty lines
	Columns    []Column          `json:"columns"`
	Rows       []Row             `json:"rows"`
	KeyCases   []string          `json:"key_cases,omitempty"` // where it matters who is best; none: everywhere
	Thresholds []ThresholdResult `json:"marks"`
	Plots      []Plot            `json:"plots"`
	Notes      []string          `json:"notes"`
}

// Column is what one column of the table holds.
type Column struct {
	Name   string `json:"name"` // a word or two: the table is to fit a terminal
	Unit   string `json:"unit"` // "", "ms", "s", "%", "/s", "×"; see Value
	Help   string `json:"help"` // what it is, in a sentence
	Better string `json:"better"`
	Key    bool   `json:"key,omitempty"` // the page names who is best in it
}

// What is better in a column; empty is neither.
const (
	Higher = "higher"
	Lower  = "lower"
)

// Row is what was found for a gateway in one case. The best value of a column is looked for among the rows of the same case.
type Row struct {
	Gateway string  `json:"gateway"`
	Case    string  `json:"case"`   // "2×", "quiet account"; empty where there is only one
	Values  []Value `json:"values"` // one for each column
}

// Value is a figure. It is in the unit that stands beside it, and for "%" a share: 0.5 is shown as 50 %. NaN is not
// measured, and null in JSON, as is what has no end.
type Value float64

// Unmeasured is the value of what was not measured, or cannot be.
func Unmeasured() Value { return Value(math.NaN()) }

// Measured says whether there is a figure.
func (v Value) Measured() bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// MarshalJSON writes null for what was not measured, since JSON has no NaN, and six digits: more are not in a measurement.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Measured() {
		return []byte("null"), nil
	}
	f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', 6, 64), 64)
	if err != nil {
		return nil, fmt.Errorf("cannot write a value: %w", err)
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*v = Unmeasured()
		return nil
	}
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("cannot read a value: %w", err)
	}
	*v = Value(f)
	return nil
}

// ThresholdResult is what a gateway was to reach.
type ThresholdResult struct {
	Name    string `json:"name"`
	Gateway string `json:"gateway"`
	Want    string `json:"want"` // "at least 0.95"
	Got     Value  `json:"got"`  // the worst of all cases that the mark is for; null: it was not measured
	Unit    string `json:"unit"`
	Passed  bool   `json:"passed"`
	Why     string `json:"why,omitempty"` // of one that was missed: the measurement that shows why it cannot be reached
}

// Plot is one picture. It carries all that it shows, so that others can draw it from the JSON.
type Plot struct {
	Name   string   `json:"name"` // of its file, without .png and without what the scenario is called
	Title  string   `json:"title"`
	Kind   Kind     `json:"kind"`
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series"`
	Lines  []Line   `json:"lines,omitempty"`
}

// Kind is how a plot is drawn.
type Kind string

// The kinds of plots.
const (
	Lines Kind = "lines" // each series a line through its points
	Bars  Kind = "bars"  // groups along X, as X.Names names them, with a bar of each series: Y[i] stands in group i
	CDF   Kind = "cdf"   // each series X: what was measured, best as Quantiles; Y is not used, and drawn as the share at or below
)

// Axis is one of a plot's two.
type Axis struct {
	Label string   `json:"label"`
	Unit  string   `json:"unit"`
	Log   bool     `json:"log,omitempty"`
	Names []string `json:"names,omitempty"` // of the groups of bars
}

// Series belongs to a gateway, whose colour it has. Several of one gateway differ by Dashed.
type Series struct {
	Name    string  `json:"name"` // as the legend has it; empty: the gateway's
	Gateway string  `json:"gateway"`
	X       []Value `json:"x,omitempty"`
	Y       []Value `json:"y,omitempty"`
	Dashed  bool    `json:"dashed,omitempty"`
}

// Line goes straight through a whole plot: a level, such as a mark, or upright a moment, such as that an engine was lost.
type Line struct {
	Name    string `json:"name"`
	At      Value  `json:"at"`
	Upright bool   `json:"upright,omitempty"`
}

// Quantiles are at most 400 values that stand for all of x, for a plot of kind CDF: the least, the greatest, and those at
// even shares between them. It sorts x.
func Quantiles(x []float64) []Value {
	const most = 400
	slices.Sort(x)
	n := min(len(x), most)
	values := make([]Value, n)
	for i := range values {
		at := i
		if len(x) > most {
			at = i * (len(x) - 1) / (most - 1)
		}
		values[i] = Value(x[at])
	}
	return values
}

// judged is the gateway that the marks are for; empty: none.
func (r *Report) judged() string {
	for _, g := range r.Gateways {
		if g.Judged {
			return g.Name
		}
	}
	return ""
}

// Missed are the marks that were measured and not reached.
func (r *Report) Missed() []ThresholdResult {
	var missed []ThresholdResult
	for _, s := range r.Scenarios {
		for _, m := range s.Thresholds {
			if m.Got.Measured() && !m.Passed {
				missed = append(missed, m)
			}
		}
	}
	return missed
}
