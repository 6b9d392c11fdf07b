package bench

import (
	"bytes"
	"encoding/json"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// sampleReport has invented figures.
func sampleReport() *Report {
	nan, gateways := Unmeasured(), []gatewayInfo{{Name: "colonnade", About: "Ours.", Judged: true}, {Name: "fifo", About: "a|b"}}
	s := ScenarioResult{
		Name: leadScenario, Title: "one account's requests are long", Question: "Who waits?", Method: "Load.",
		Columns: []column{columnGoodput, {Name: leadColumn, Unit: "×", Help: "times.", Better: lower}, columnRefused, columnLeaked},
		Rows: []Row{
			{Gateway: "colonnade", Case: leadCase, Values: []Value{nan, 1.5, 0, nan}},
			{Gateway: "fifo", Case: leadCase, Values: []Value{nan, 30, 0.25, nan}},
			{Gateway: "colonnade", Case: "all", Values: []Value{0.998, nan, nan, 0}},
			{Gateway: "fifo", Case: "all", Values: []Value{0.5, nan, nan}},
		},
		Thresholds: []ThresholdResult{
			{Name: "goodput", Gateway: "colonnade", Want: "at least 95 %", Got: 0.998, Unit: "%", Passed: true},
			{Name: "wait", Gateway: "colonnade", Want: "at most 1 ms", Got: 2, Unit: "ms", Why: []string{"A clock says so.", "And it is right."}},
			{Name: "late", Gateway: "colonnade", Want: "none", Got: nan},
		},
		Notes: []string{"fifo, all: too late."},
	}
	x := []Value{1, 2, 3, 10}
	s.Charts = []chart{
		{Name: "wait", Title: "Waits", Kind: cdfChart, X: axis{Label: "wait", Unit: "ms", Log: true}, Y: axis{Label: "share", Unit: "%"}},
		{Name: "load", Title: "Load", Kind: lineChart, X: axis{Label: "load"}, Y: axis{Label: "goodput", Unit: "%"},
			RefLines: []refLine{{Name: "lost", At: 2, Vertical: true}, {Name: "limit", At: 0.95}}},
		{Name: "bars", Title: "Bars", Kind: barChart, X: axis{Label: "accounts", Names: []string{"one", "two", "three", "four"}}},
	}
	for i := range s.Charts {
		for _, g := range gateways {
			s.Charts[i].Series = append(s.Charts[i].Series, series{Gateway: g.Name, X: x, Y: []Value{0.5, 0.9, nan, 1}})
		}
	}
	return &Report{Format: Format, Began: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC), Seconds: 1274,
		Machine: machineInfo{Cores: 2, OS: "linux/amd64", Go: "go1.26", Program: "v0.4.0"}, Gateways: gateways, Scenarios: []ScenarioResult{s}}
}

func render(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeMarkdown(&b, r, r.page()); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(b.String(), "\u00a0", " ")
}

func TestMarkdown(t *testing.T) {
	text := render(t, sampleReport())
	for _, want := range []string{
		"![Waits](overload/costly-wait.png)\n\nWhen requests arrive",
		"(p99) is 1.50 × with colonnade; of their requests, fifo refuses 25.0 %.\n" +
			"For colonnade, 1 of 3 thresholds are met, 1 missed, 1 not measured",
		"| case | gateway | × alone × ↓ | refused % |\n| --- | --- | ---:| ---:|\n| quiet accounts | colonnade | **1.50** | 0 |\n|  | fifo | 30.0 | 25.0 |\n\n" +
			"| case | gateway | goodput % ↑ | leaked ↓ |\n| --- | --- | ---:| ---:|\n| all | colonnade | **99.8** | 0 |\n|  | fifo | 50.0 | – |\n\n" +
			"- *goodput*: work",
		"- *goodput*: all: colonnade 99.8 %.\n",
		"![Load](overload/costly-load.png)",
		"- fifo, all: too late.\n",
		"| ✗ | costly | wait | colonnade | at most 1 ms | 2.00 ms |\n| ? | costly | late | colonnade | none | not measured |\n",
		"## Missed, and why\n\n- **costly**, wait: 2.00 ms, wanted at most 1 ms.\n  - A clock says so.\n  - And it is right.\n- **costly**, late: not measured, wanted none.\n",
		"of an unknown commit.\nThe run began on 21 November 2026, 09:30 UTC, and took 21 min.",
		"measured one after the other",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have\n%s\nbut is\n%s", want, text)
		}
	}
	quick := sampleReport()
	quick.Quick, quick.Scenarios[0].Name, quick.Scenarios[0].Rows[0].Gateway = true, "other", "a|b"
	text = render(t, quick)
	for _, want := range []string{"This was a quick run", "measured at the same time", `| a\|b |`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of a quick run does not have %q", want)
		}
	}
	if strings.Contains(text, "In the chart") || strings.Contains(text, "NaN") {
		t.Error("the page shows what was not measured")
	}
}

// A published page, its JSON and this program belong together. To render the pages again:
//
//	colonnade-bench -from docs/overload.json -out docs
//	colonnade-bench cost -from docs/performance.json -out docs
func TestPublishedPagesAreRenderedFromTheirJSON(t *testing.T) {
	for _, page := range []string{overloadPage, performancePage} {
		checkPublished(t, page)
	}
}

func checkPublished(t *testing.T, page string) {
	t.Helper()
	base := filepath.Join("../docs", page)
	file, err := os.Open(base + ".json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := ReadJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(base + ".md")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.ReplaceAll(string(text), "\u00a0", " "), "\n")
	for i, line := range strings.Split(render(t, r), "\n") {
		if i >= len(want) || line != want[i] {
			t.Errorf("%s.md, line %d: colonnade-bench writes, with -from and -out,\n%s", base, i+1, line)
			break
		}
	}
	for _, s := range r.Scenarios {
		for _, c := range s.Charts {
			if _, err := os.Stat(filepath.Join(base, s.file(&c))); c.drawable() && err != nil {
				t.Error(err)
			}
		}
	}
}

func TestText(t *testing.T) {
	f := func(screen Screen, r *Report, want string) {
		t.Helper()
		var b bytes.Buffer
		if err := WriteText(&b, r, screen); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(b.String(), "\u00a0", " "); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	const thresholds = `1 of 3 thresholds are met, 1 missed, 1 not measured.

   scenario  threshold  gateway           wanted           got
✓  costly    goodput    colonnade  at least 95 %        99.8 %
✗  costly    wait       colonnade   at most 1 ms       2.00 ms
?  costly    late       colonnade           none  not measured

- costly, wait: A clock says so. And it is right.
`
	f(Screen{Width: 80}, sampleReport(), `costly  one account's requests are long

                           × alone  refused
case            gateway        × ↓        %
quiet accounts  colonnade     1.50        0
                fifo          30.0     25.0

                 goodput  leaked
case  gateway        % ↑       ↓
all   colonnade     99.8       0
      fifo          50.0       –

- fifo, all: too late.

`+thresholds)
	narrow := sampleReport()
	narrow.Quick, narrow.Scenarios[0].Rows, narrow.Scenarios[0].Notes = true, narrow.Scenarios[0].Rows[:2], nil
	f(Screen{Width: 38, Colour: true}, narrow, "\x1b[1mcostly\x1b[0m  one account's requests are long\n\n"+
		"                           × alone\ncase            gateway        × ↓\nquiet accounts  colonnade     \x1b[1m1.50\x1b[0m\n                fifo          30.0\n\n"+
		"                           refused\ncase            gateway          %\nquiet accounts  colonnade        0\n                fifo          25.0\n\n"+
		strings.ReplaceAll(thresholds, "A clock says so. And it is right.", "A clock says so. And\n  it is right.")+
		"This was a quick run: its figures are rough, and its thresholds are not judged.\n")
}

func TestFailures(t *testing.T) {
	r := sampleReport()
	if got := r.Failures(); len(got) != 0 {
		t.Errorf("a threshold that is missed for a measured reason, and one that was not measured, are failures: %q", got)
	}
	r.Scenarios[0].Thresholds[1].Why = nil
	if got := r.Failures(); !reflect.DeepEqual(got, []string{"colonnade: wait"}) {
		t.Errorf("failures are %q", got)
	}
}

func TestJSON(t *testing.T) {
	r := sampleReport()
	r.Scenarios[0].Rows[0].Values[1] = Value(math.Inf(1))
	r.Scenarios[0].Rows[1].Values[1] = 1.23456789
	var b bytes.Buffer
	if err := WriteJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{`"values": [ null, null, 0, null ]`, `"values": [ null, 1.23457, 0.25, null ]`} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not have %s:\n%s", want, text)
		}
	}
	back, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if v := back.Scenarios[0].Rows[0].Values[1]; v.Measured() {
		t.Errorf("an unmeasured value is read as %v", v)
	}
	var again bytes.Buffer
	if err := WriteJSON(&again, back); err != nil || again.String() != text {
		t.Errorf("%v; it is not read as it was written", err)
	}
	if _, err := ReadJSON(strings.NewReader(`{"format": 99}`)); err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("a later format: %v", err)
	}
	if _, err := ReadJSON(strings.NewReader(`{"seconds": "x"}`)); err == nil {
		t.Error("malformed JSON was read")
	}
	var v Value
	if err := json.Unmarshal([]byte(`"x"`), &v); err == nil {
		t.Error("a string was read as a value")
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	r := sampleReport()
	r.Scenarios[0].Charts[1].Series = []series{{X: []Value{Unmeasured()}}}
	files, err := Save(r, dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v", f, err)
		}
		name, _ := filepath.Rel(dir, f)
		got = append(got, name)
	}
	want := []string{"overload.md", "overload.json", "overload/costly-wait.png", "overload/costly-bars.png"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it wrote %q, want %q", got, want)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(text), "costly-load.png") {
		t.Errorf("%v; the page shows a chart that was not drawn", err)
	}
	picture, err := os.Open(files[2])
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	if c, err := png.DecodeConfig(picture); err != nil || c.Width != 1350 || c.Height != 750 {
		t.Errorf("%v; the chart has %d × %d pixels", err, c.Width, c.Height)
	}
	if _, err := Save(r, "/proc/nothing"); err == nil {
		t.Error("it was saved where nothing can be")
	}
}
