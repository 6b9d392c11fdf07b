package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Format is the version of the JSON form of a Report. It grows when a reader of the last version would fail; a new field
// does not change it.
const Format = 2

// Report holds everything that one run has found.
type Report struct {
	Format    int              `json:"format"` // see Format
	Began     time.Time        `json:"began"`
	Seconds   float64          `json:"seconds"`        // duration of the run
	Quick     bool             `json:"quick"`          // a short run: its figures are rough, and its thresholds are not judged
	Page      string           `json:"page,omitempty"` // name of the page that shows it; empty: overload
	Machine   machineInfo      `json:"machine"`
	Gateways  []gatewayInfo    `json:"gateways"`
	Scenarios []ScenarioResult `json:"scenarios"`
}

// machineInfo is the machine that engines, gateways and load share.
type machineInfo struct {
	Cores   int    `json:"cores"`
	CPU     string `json:"cpu,omitempty"` // the model, where it is known
	OS      string `json:"os"`
	Go      string `json:"go"`
	Program string `json:"program"` // this program's version
	Commit  string `json:"commit"`  // source of this program, with +dirty if it was changed; empty: unknown
}

// gatewayInfo says what a gateway is and how it is configured.
type gatewayInfo struct {
	Name   string `json:"name"`
	About  string `json:"about"`
	Judged bool   `json:"judged,omitempty"` // the thresholds are for this gateway
}

// ScenarioResult is what one scenario has found.
type ScenarioResult struct {
	Name       string            `json:"name"`     // as -scenario takes it
	Title      string            `json:"title"`    // one line
	Question   string            `json:"question"` // what the scenario answers
	Method     string            `json:"method"`   // the load, with numbers; an empty line separates paragraphs
	Columns    []column          `json:"columns"`
	Rows       []Row             `json:"rows,omitempty"`
	KeyCases   []string          `json:"key_cases,omitempty"` // cases whose best gateways the page names; empty: all
	Thresholds []ThresholdResult `json:"thresholds,omitempty"`
	Charts     []chart           `json:"charts,omitempty"`
	Notes      []string          `json:"notes,omitempty"`
}

// column describes one column of the table.
type column struct {
	Name   string    `json:"name"`             // a word or two: the table must fit a terminal
	Unit   string    `json:"unit,omitempty"`   // "", "ms", "s", "%", "×"; see Value
	Help   string    `json:"help"`             // one sentence
	Better direction `json:"better,omitempty"` // empty: neither
	Key    bool      `json:"key,omitempty"`    // the page names the gateway that is best in it
}

// direction says which values of a column are better.
type direction string

const (
	higher direction = "higher"
	lower  direction = "lower"
)

// Row is what was found for a gateway in one case. The best value of a column is looked for among the rows of a case.
type Row struct {
	Gateway string  `json:"gateway"`
	Case    string  `json:"case,omitempty"` // such as "2×"; empty if there is only one
	Values  []Value `json:"values"`         // one for each column
}

// value is that of a column; a row may be too short.
func (r *Row) value(column int) Value {
	if column >= len(r.Values) {
		return Unmeasured()
	}
	return r.Values[column]
}

// ThresholdResult compares a gateway with a threshold.
type ThresholdResult struct {
	Name    string   `json:"name"`
	Gateway string   `json:"gateway"`
	Want    string   `json:"want"` // such as "at least 95 %"
	Got     Value    `json:"got"`  // the worst of all cases that the threshold is for; null: not measured
	Unit    string   `json:"unit,omitempty"`
	Passed  bool     `json:"passed"`
	Why     []string `json:"why,omitempty"` // of a missed one: the measurements that show why it cannot be reached
}

// chart is one picture. It holds all data that it shows, so that other programs can draw it from the JSON.
type chart struct {
	Name     string    `json:"name"` // of its file, without the scenario's name and .png
	Title    string    `json:"title"`
	Kind     chartKind `json:"kind"`
	X        axis      `json:"x"`
	Y        axis      `json:"y"`
	Series   []series  `json:"series"`
	RefLines []refLine `json:"ref_lines,omitempty"`
}

type chartKind string

const (
	lineChart chartKind = "lines" // each series is a line through its points
	barChart  chartKind = "bars"  // groups along X, named by X.Names, with a bar of each series: Y[i] stands in group i
	cdfChart  chartKind = "cdf"   // X are measured values, and the share at or below is drawn; Y is not used
)

// axis is one of a chart's two.
type axis struct {
	Label string   `json:"label"`
	Unit  string   `json:"unit,omitempty"`
	Log   bool     `json:"log,omitempty"`
	Names []string `json:"names,omitempty"` // of the groups of bars
}

func (a axis) title() string {
	if a.Unit == "" {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}

// series belongs to a gateway and has its colour. Several of one gateway differ by Dashed.
type series struct {
	Name    string  `json:"name,omitempty"` // in the legend; empty: the gateway's
	Gateway string  `json:"gateway"`
	X       []Value `json:"x,omitempty"`
	Y       []Value `json:"y,omitempty"`
	Dashed  bool    `json:"dashed,omitempty"`
}

func (s *series) label() string {
	if s.Name != "" {
		return s.Name
	}
	return s.Gateway
}

// refLine goes straight through a whole chart: at a level, or at a moment if it is vertical.
type refLine struct {
	Name     string `json:"name"`
	At       Value  `json:"at"`
	Vertical bool   `json:"vertical,omitempty"`
}

// drawable reports whether the chart has any value.
func (c *chart) drawable() bool {
	return slices.ContainsFunc(c.Series, func(s series) bool {
		return slices.ContainsFunc(slices.Concat(s.X, s.Y), Value.Measured)
	})
}

// Value is a figure in the unit that stands beside it; for "%" it is a share, so that 0.5 is shown as 50 %. NaN means not
// measured, and is null in JSON, like an infinite value.
type Value float64

// Unmeasured is the value of what was not measured, or cannot be.
func Unmeasured() Value { return Value(math.NaN()) }

// Measured reports whether there is a figure.
func (v Value) Measured() bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// MarshalJSON writes six significant digits, or all before the point, and null for no figure: JSON has no NaN.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Measured() {
		return []byte("null"), nil
	}
	if math.Abs(float64(v)) >= 1e6 {
		return strconv.AppendFloat(nil, float64(v), 'f', 0, 64), nil
	}
	return strconv.AppendFloat(nil, float64(v), 'g', 6, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(b []byte) error {
	f := math.NaN()
	if string(b) != "null" {
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("cannot read a value: %w", err)
		}
	}
	*v = Value(f)
	return nil
}

// numberList is a list of numbers in indented JSON. It matches nothing in a string, which has no line breaks.
var numberList = regexp.MustCompile(`\[\n[^]["{}]*]`)

// WriteJSON writes a report for programs. Each list of numbers stands on one line.
func WriteJSON(w io.Writer, r *Report) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("cannot encode the report: %w", err)
	}
	text = numberList.ReplaceAllFunc(text, func(list []byte) []byte { return bytes.Join(bytes.Fields(list), []byte(" ")) })
	_, err = w.Write(append(text, '\n'))
	return err
}

// ReadJSON reads a report that WriteJSON has written.
func ReadJSON(r io.Reader) (*Report, error) {
	report := &Report{}
	if err := json.NewDecoder(r).Decode(report); err != nil {
		return nil, fmt.Errorf("cannot read the report: %w", err)
	}
	if report.Format != Format {
		return nil, fmt.Errorf("the report has format %d, and this program reads format %d: measure again", report.Format, Format)
	}
	return report, nil
}

// quantiles are at most 400 values that stand for all of x in a chart: the least, the greatest, and those at even shares
// between them. It sorts x.
func quantiles(x []float64) []Value {
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
