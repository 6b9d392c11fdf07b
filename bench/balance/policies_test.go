package balance

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var update = flag.Bool("update", false, "measure all policies at all loads, and write the figures and the charts of docs/balancing.md")

const docs = "../../docs"

// seedCount is how many seeds the figures of the page are of.
const seedCount = 7

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
		index, oracle, least := figures[indexName], figures[oracleName], figures["least_loaded"]
		if index.Hits < 0.95*oracle.Hits || index.TTFT50 > 1.1*oracle.TTFT50 || index.Hits < 1.2*least.Hits {
			t.Errorf("%s: the index %+v, the oracle %+v, least_loaded %+v", w.Name, index, oracle, least)
		}
	}
}

// TestBalancingPage writes the figures of the page. They are medians of seven seeds: in saturation, a small change of times changes much.
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
		for _, c := range append(Contestants(), AdapterContestants()...) {
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

// names of the contestants that the aims are about.
const (
	indexName  = "prefix_affinity, index"
	oracleName = "oracle"
)

// measured are the figures of contestants at each load, of all seeds.
type measured struct {
	traffic     string
	contestants []Contestant
	figures     map[string][]Figures // by contestant and load
	leastJain   float64              // of any seed by the index; +Inf: none
}

// measure measures one traffic, of which there is one for each seed.
func measure(t *testing.T, seeds []Workload, contestants []Contestant) *measured {
	all := &measured{seeds[0].Name, contestants, map[string][]Figures{}, math.Inf(1)}
	for _, c := range contestants {
		for _, load := range Loads() {
			t.Log(all.traffic, c.Name, load)
			runs := simulateAll(t, seeds, load, &c)
			for _, f := range runs {
				if f.PeakOver > 0 {
					t.Fatalf("%s, %s at %.2f: %d requests beyond the slots", all.traffic, c.Name, load, f.PeakOver)
				}
				if c.Name == indexName && f.Jain < all.leastJain {
					all.leastJain = f.Jain
				}
			}
			all.figures[c.Name] = append(all.figures[c.Name], summary(runs))
		}
	}
	return all
}

// simulateAll runs a contestant with each seed, all at once: times are virtual.
func simulateAll(t *testing.T, seeds []Workload, load float64, c *Contestant) []Figures {
	runs := make([]Figures, len(seeds))
	var running sync.WaitGroup
	for i, w := range seeds {
		running.Go(func() { runs[i] = simulate(t, w.At(load, c)) })
	}
	running.Wait()
	return runs
}

// summary returns the median of each figure; that of Jain's index if accounts had to wait in all runs.
func summary(runs []Figures) (f Figures) {
	of := func(figure func(*Figures) float64) float64 {
		var list []float64
		for i := range runs {
			list = append(list, figure(&runs[i]))
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	f.Hits, f.TTFT50 = of(func(f *Figures) float64 { return f.Hits }), of(func(f *Figures) float64 { return f.TTFT50 })
	f.TTFT99, f.Goodput = of(func(f *Figures) float64 { return f.TTFT99 }), of(func(f *Figures) float64 { return f.Goodput })
	f.Loaded, f.Jain = of(func(f *Figures) float64 { return f.Loaded }), of(func(f *Figures) float64 { return f.Jain })
	if slices.ContainsFunc(runs, func(r Figures) bool { return math.IsNaN(r.Jain) }) {
		f.Jain = math.NaN()
	}
	return f
}

// figuresText measures, draws the charts, and returns the tables.
func figuresText(t *testing.T) string {
	var seeds [4][]Workload
	for seed := uint64(1); seed <= seedCount; seed++ {
		w, err := Workloads(seed)
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range append(w, AdapterWorkload(seed)) {
			seeds[i] = append(seeds[i], one)
		}
	}
	contestants := Contestants()
	if llmdBuilt(t) {
		contestants = append(contestants, LLMDContestants(llmdProgram)...)
	} else {
		fmt.Fprintf(os.Stderr, "%s is not built: the figures are without llm-d\n", llmdProgram)
	}
	var tables, aims strings.Builder
	for _, of := range seeds[:3] {
		all := measure(t, of, contestants)
		aims.WriteString(all.aims())
		all.table(&tables, "share of prompt tokens in the cache, and time to first token in seconds, p50 / p99", func(f *Figures) string {
			return fmt.Sprintf("%.2f, %.2f / %.1f", f.Hits, f.TTFT50, f.TTFT99)
		})
		all.goodput(&tables)
		all.draw(t, "hits", "share of prompt tokens found in the cache", func(f *Figures) float64 { return f.Hits })
		all.draw(t, "ttft", "time to first token, median, s", func(f *Figures) float64 { return f.TTFT50 })
	}
	all := measure(t, seeds[3], AdapterContestants())
	all.table(&tables, "share of requests whose adapter was in memory, and time to first token in seconds, p50 / p99", func(f *Figures) string {
		return fmt.Sprintf("%.2f, %.2f / %.1f", f.Loaded, f.TTFT50, f.TTFT99)
	})
	all.goodput(&tables)
	all.draw(t, "goodput", "answers a second that begin within 5 s", func(f *Figures) float64 { return f.Goodput })
	return "\n| `prefix_affinity` by the index beside the oracle, at the worst of five loads | aim | chats | burstgpt | mooncake |\n| --- | --- | --- | --- | --- |\n" +
		columns(aims.String()) + tables.String() + "\n"
}

// aims returns what the aims were measured as, a line.
func (m *measured) aims() string {
	hits, ttft, fair := math.Inf(1), 0.0, 1.0
	for i := range Loads() {
		index, oracle := m.figures[indexName][i], m.figures[oracleName][i]
		hits, ttft = min(hits, index.Hits/oracle.Hits), max(ttft, index.TTFT50/oracle.TTFT50)
		if !math.IsNaN(index.Jain) {
			fair = min(fair, index.Jain)
		}
	}
	return fmt.Sprintf("%.3f\t%.3f\t%.3f (%.3f)\n", hits, ttft, fair, m.leastJain)
}

// columns makes the rows of the table of aims from a line for each traffic.
func columns(lines string) string {
	rows := []string{
		"cached tokens ÷ the oracle's | at least 0.95", "median time to first token ÷ the oracle's | at most 1.1", "Jain's index (and of the least fair seed) | at least 0.98",
	}
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		for i, cell := range strings.Split(line, "\t") {
			rows[i] += " | " + cell
		}
	}
	return "| " + strings.Join(rows, " |\n| ") + " |\n"
}

func (m *measured) goodput(out *strings.Builder) {
	m.table(out, "goodput, and Jain's index where accounts had to wait", func(f *Figures) string {
		return fmt.Sprintf("%.1f", f.Goodput) + jain(f.Jain)
	})
}

func (m *measured) table(out *strings.Builder, title string, cell func(*Figures) string) {
	fmt.Fprintf(out, "\n**%s**: %s, at loads of\n\n| |", m.traffic, title)
	for _, load := range Loads() {
		fmt.Fprintf(out, " %.2f |", load)
	}
	out.WriteString("\n| --- |" + strings.Repeat(" --- |", len(Loads())) + "\n")
	for _, c := range m.contestants {
		fmt.Fprintf(out, "| %s |", c.Name)
		for i := range m.figures[c.Name] {
			fmt.Fprintf(out, " %s |", cell(&m.figures[c.Name][i]))
		}
		out.WriteString("\n")
	}
}

func (m *measured) draw(t *testing.T, file, title string, figure func(*Figures) float64) {
	chart := newChart(t, m.traffic+": "+title)
	for _, c := range m.contestants {
		var line plotter.XYs
		for i, load := range Loads() {
			line = append(line, plotter.XY{X: load, Y: figure(&m.figures[c.Name][i])})
		}
		chart.add(c.Name, line)
	}
	chart.save(filepath.Join(docs, "balancing-"+m.traffic+"-"+file+".png"))
}

func jain(j float64) string {
	if math.IsNaN(j) {
		return ""
	}
	return fmt.Sprintf(", %.3f", j)
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
	colors, err := brewer.GetPalette(brewer.TypeQualitative, "Paired", 12)
	if err != nil {
		c.t.Fatal(err)
	}
	line.Width = vg.Points(2)
	if c.lines < 12 {
		line.Color = colors.Colors()[c.lines]
	} else {
		line.Dashes = []vg.Length{vg.Points(float64(6 - 4*(c.lines-12))), vg.Points(2)}
	}
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
