package bench

import (
	"bytes"
	"encoding/json"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// golden compares with a file below testdata. COLONNADE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("COLONNADE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("%s, line %d (COLONNADE_GOLDEN=1 writes it anew):\n%s\nwant\n%s", name, i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%s: %d lines, want %d", name, len(gotLines), len(wantLines))
	}
}

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := WriteMarkdown(&b, madeUp(), "overload"); err != nil {
		t.Fatal(err)
	}
	golden(t, "overload.md", b.String())
	if strings.Contains(b.String(), "NaN") {
		t.Error("NaN is no figure")
	}
	for line := range strings.Lines(b.String()) {
		if cells := strings.Count(line, "|") - strings.Count(line, `\|`); strings.HasPrefix(line, "|") && cells < 4 {
			t.Errorf("no proper row of a table: %q", line)
		}
	}
	quick := madeUp()
	quick.Quick = true
	quick.Scenarios[0].Rows[0].Gateway = "a|b"
	b.Reset()
	if err := WriteMarkdown(&b, quick, "overload"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"This was a quick run", "all are measured at the same time", `| a\|b |`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

func TestTable(t *testing.T) {
	var wide, narrow, coloured bytes.Buffer
	WriteTable(&wide, madeUp(), Screen{Width: 120})
	WriteTable(&narrow, madeUp(), Screen{Width: 50})
	WriteTable(&coloured, madeUp(), Screen{Width: 120, Colour: true})
	golden(t, "overload.txt", wide.String())
	for line := range strings.Lines(narrow.String()) {
		if row := strings.HasPrefix(line, " ") || strings.Contains(line, "×"); row && utf8.RuneCountInString(line) > 51 && !strings.Contains(line, "wanted") {
			t.Errorf("too wide: %q", line)
		}
	}
	for _, cell := range []string{"99.7", "leaked", "16.9"} {
		if !strings.Contains(narrow.String(), cell) {
			t.Errorf("%s was left out", cell)
		}
	}
	bare := coloured.String()
	for _, dress := range []string{plain, brightly, faintly, inGreen, inRed} {
		if !strings.Contains(bare, dress) {
			t.Errorf("%q is not used", dress)
		}
		bare = strings.ReplaceAll(bare, dress, "")
	}
	if bare != wide.String() {
		t.Error("with colours something else is said than without")
	}
}

func TestJSON(t *testing.T) {
	r := madeUp()
	r.Scenarios[0].Rows[0].Values[1] = Value(math.Inf(1))
	r.Scenarios[0].Notes = []string{`[1, "2]`}
	var b bytes.Buffer
	if err := WriteJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{`"values": [0.5, null, 0, 1.55, 0]`, `"notes": []`, `"[1, \"2]"`} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not have %s", want)
		}
	}
	back, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if v := back.Scenarios[0].Rows[4].Values[4]; v.Measured() {
		t.Errorf("what was not measured comes back as %v", v)
	}
	var again bytes.Buffer
	if err := WriteJSON(&again, back); err != nil || again.String() != text {
		t.Errorf("%v; it does not come back as it was", err)
	}
	if !reflect.DeepEqual(back.Scenarios[1].Thresholds, []ThresholdResult{}) || back.Began != r.Began {
		t.Errorf("it came back as %+v", back)
	}
	if _, err := ReadJSON(strings.NewReader(`{"format": 99}`)); err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("a later format: %v", err)
	}
	if _, err := ReadJSON(strings.NewReader(`{"seconds": "x"}`)); err == nil {
		t.Error("what is no report was read")
	}
	var v Value
	if err := json.Unmarshal([]byte(`"x"`), &v); err == nil {
		t.Error("a text is no value")
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	r := madeUp()
	r.Scenarios[0].Plots = nil
	bars := r.Scenarios[1].Plots[0]
	bars.Name = "jain"
	r.Scenarios[1].Plots = []Plot{bars, {Name: "empty", Kind: Lines, Series: []Series{{X: []Value{Unmeasured()}}}}}
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
	want := []string{"overload.md", "overload.json", "overload/flood-jain.png"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it wrote %q, want %q", got, want)
	}
	checkPNG(t, files[2])
	page, err := os.ReadFile(filepath.Join(dir, "overload.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), `"overload/flood-jain.png"`) {
		t.Error("the page does not show the plot")
	}
	if strings.Contains(string(page), "empty.png") {
		t.Error("the page shows a plot that was not drawn")
	}
	if _, err := Save(r, "/proc/nothing"); err == nil {
		t.Error("it was saved where nothing can be")
	}
}

// checkPNG checks that a picture is as large as it should be, and takes little room.
func checkPNG(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := png.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if config.Width != 1800 || config.Height != 1000 || len(b) > 60<<10 {
		t.Errorf("the picture has %d × %d points in %d bytes", config.Width, config.Height, len(b))
	}
	if colours, ok := config.ColorModel.(color.Palette); !ok || !slices.Contains(colours, palette()[0]) {
		t.Error("the gateway that is judged is not in the picture")
	}
}

func TestFigures(t *testing.T) {
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
	f(12345, "", "12,345")
	f(0.9984, "", "0.998")
	f(0.9996, "", "1.00")
	f(0.9953, "%", "99.5 %")
	f(0.99961, "%", "100 %")
	f(0.0432, "%", "4.3 %")
	f(0.00043, "%", "0.0430 %")
	f(4.5, "%", "450 %")
	f(0.4213, "ms", "0.421 ms")
	f(9.996, "ms", "10.0 ms")
	f(31234.6, "ms", "31,235 ms")
	f(-12345.6, "ms", "-12,346 ms")
	f(1.5, "×", "1.50 ×")
	f(1e-9, "s", "1e-09 s")
	f(3200, "/s", "3200/s")
}

func TestBest(t *testing.T) {
	s := ScenarioResult{Columns: []Column{{Name: "up", Better: Higher}, {Name: "down", Better: Lower}, {Name: "neither"}, {Name: "all", Better: Lower}}}
	nan := Unmeasured()
	s.Rows = []Row{
		{Gateway: "a", Case: "1", Values: []Value{0.99800, 5, 1, 0}},
		{Gateway: "b", Case: "1", Values: []Value{0.99801, 7, 2, 0}}, // reads the same
		{Gateway: "c", Case: "1", Values: []Value{0.5, nan, 3}},
		{Gateway: "a", Case: "2", Values: []Value{0.1, nan, 1, 1}}, // alone
	}
	want := [][]bool{{true, true, false, false}, {true, false, false, false}, {false, false, false, false}, {false, false, false, false}}
	if got := cellsOf(&s).best; !reflect.DeepEqual(got, want) {
		t.Errorf("best are %v, want %v", got, want)
	}
}

// Cases of which something else was measured have a table of their own.
func TestParts(t *testing.T) {
	nan := Unmeasured()
	s := ScenarioResult{Columns: make([]Column, 4), Rows: []Row{
		{Case: "all", Values: []Value{1, 1, nan, nan}},
		{Case: "quiet", Values: []Value{nan, nan, 1, 1}},
		{Case: "loud", Values: []Value{nan, nan, 1, nan}},
		{Case: "quiet", Values: []Value{nan, nan, nan, 1}},
	}}
	want := []part{{[][]int{{0}}, []int{0, 1}}, {[][]int{{1, 3}, {2}}, []int{2, 3}}}
	if got := partsOf(&s); !reflect.DeepEqual(got, want) {
		t.Errorf("tables are %v, want %v", got, want)
	}
}

func TestQuantiles(t *testing.T) {
	var x []float64
	for i := range 10000 {
		x = append(x, float64(9999-i))
	}
	if q := Quantiles(x); len(q) != 400 || q[0] != 0 || q[399] != 9999 {
		t.Errorf("%d of them, from %v to %v", len(q), q[0], q[len(q)-1])
	}
	if q := Quantiles([]float64{2, 1}); !reflect.DeepEqual(q, []Value{1, 2}) {
		t.Errorf("got %v", q)
	}
	if q := Quantiles(nil); len(q) != 0 {
		t.Errorf("got %v", q)
	}
}
