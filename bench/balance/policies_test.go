package balance

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var update = flag.Bool("update", false, "measure all policies at all loads, and write the figures and the charts of docs/balancing.md")

const docs = "../../docs"

func simulate(t *testing.T, c Config) (f Figures) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { f = Simulate(c) })
	return f
}

// Below saturation the index finds as much as an oracle that sees the caches, and answers begin as soon. Slots are never exceeded.
func TestIndexBesideOracle(t *testing.T) {
	all := Contestants()
	workloads, err := Workloads(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads {
		w.Traffic = first(w.Traffic, 1500)
		figures := map[string]Figures{}
		for _, c := range all {
			f := simulate(t, w.At(0.75, &c))
			figures[c.Name] = f
			if f.PeakOver != 0 {
				t.Errorf("%s, %s: %d requests beyond the slots", w.Name, c.Name, f.PeakOver)
			}
		}
		index, oracle, least := figures["prefix_affinity, index"], figures["oracle"], figures["least_loaded"]
		if index.Hits < 0.95*oracle.Hits || index.TTFT50 > 1.1*oracle.TTFT50 || index.Hits < 1.2*least.Hits {
			t.Errorf("%s: the index %+v, the oracle %+v, least_loaded %+v", w.Name, index, oracle, least)
		}
	}
}

// TestBalancingPage writes the figures of the page. They are medians of three seeds: in saturation, a small change of times changes much.
func TestBalancingPage(t *testing.T) {
	page := filepath.Join(docs, "balancing.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- figures: written by make bench-balance -->\n", "<!-- end of figures -->\n"
	head, rest, ok := strings.Cut(string(text), begin)
	before, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for figures", page)
	}
	if !*update {
		for _, c := range Contestants() {
			if !strings.Contains(before, "| "+c.Name+" |") {
				t.Errorf("%s has no figures of %s: write them with make bench-balance", page, c.Name)
			}
		}
		return
	}
	if err := os.WriteFile(page, []byte(head+begin+figuresText(t)+end+tail), 0o600); err != nil {
		t.Fatal(err)
	}
}

// figuresText measures, draws the charts, and returns the tables.
func figuresText(t *testing.T) string {
	var out strings.Builder
	seeds := [][]Workload{}
	for seed := range uint64(3) {
		w, err := Workloads(seed + 1)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, w)
	}
	for i := range seeds[0] {
		name := seeds[0][i].Name
		hits, ttft := newChart(t, name+": share of prompt tokens found in the cache"), newChart(t, name+": time to first token, median, s")
		fmt.Fprintf(&out, "\n**%s**: share of prompt tokens cached, median time to first token in seconds, and Jain's index, at loads of\n\n| |", name)
		for _, load := range Loads() {
			fmt.Fprintf(&out, " %.2f |", load)
		}
		out.WriteString("\n| --- |" + strings.Repeat(" --- |", len(Loads())) + "\n")
		for _, c := range Contestants() {
			fmt.Fprintf(&out, "| %s |", c.Name)
			var lines [2]plotter.XYs
			for _, load := range Loads() {
				t.Log(name, c.Name, load)
				var of [3][]float64
				for _, w := range seeds {
					f := simulate(t, w[i].At(load, &c))
					of[0], of[1], of[2] = append(of[0], f.Hits), append(of[1], f.TTFT50), append(of[2], f.Jain)
				}
				fmt.Fprintf(&out, " %.2f, %.2f%s |", median(of[0]), median(of[1]), jain(median(of[2])))
				lines[0] = append(lines[0], plotter.XY{X: load, Y: median(of[0])})
				lines[1] = append(lines[1], plotter.XY{X: load, Y: median(of[1])})
			}
			out.WriteString("\n")
			hits.add(c.Name, lines[0])
			ttft.add(c.Name, lines[1])
		}
		hits.save(filepath.Join(docs, "balancing-"+name+"-hits.png"))
		ttft.save(filepath.Join(docs, "balancing-"+name+"-ttft.png"))
	}
	out.WriteString("\n")
	return out.String()
}

func jain(j float64) string {
	if math.IsNaN(j) {
		return ""
	}
	return fmt.Sprintf(", %.3f", j)
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// chart is a chart of lines over the load.
type chart struct {
	t     *testing.T
	plot  *plot.Plot
	lines int
}

func newChart(t *testing.T, title string) *chart {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, "load, relative to what the engines can serve by least_loaded"
	p.Y.Min = 0
	p.Legend.Top, p.Legend.XOffs = true, -vg.Points(10)
	p.Add(plotter.NewGrid())
	return &chart{t: t, plot: p}
}

func (c *chart) add(name string, points plotter.XYs) {
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		c.t.Fatal(err)
	}
	colors, err := brewer.GetPalette(brewer.TypeQualitative, "Paired", 10)
	if err != nil {
		c.t.Fatal(err)
	}
	line.Color = colors.Colors()[c.lines%10]
	line.Width = vg.Points(2)
	marks.Color = line.Color
	c.lines++
	c.plot.Add(line, marks)
	c.plot.Legend.Add(name, line)
}

func (c *chart) save(file string) {
	c.plot.X.Max = 2.1 // room for the legend
	if err := c.plot.Save(9*vg.Inch, 5*vg.Inch, file); err != nil {
		c.t.Fatal(err)
	}
}
