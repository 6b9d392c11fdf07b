package bench

import (
	"bytes"
	"strings"
	"testing"

	"colonnade/bench/cost"
)

func figuresOf(name string, cpu ...float64) cost.Figures {
	f := cost.Figures{Contestant: name}
	for _, v := range cpu {
		f.Rounds = append(f.Rounds, cost.Round{CPU: v, P50: 10 * v, P99: 100 * v, Late: 5, Rate: 1000})
	}
	return f
}

func samplePerformance() *Report {
	all := []cost.Figures{figuresOf(cost.FleetName, 30, 40), figuresOf(cost.ServeName, 12, 16), figuresOf(cost.ChainName, 20, 20), figuresOf(cost.NginxName, 10, 10)}
	all[1].Rounds[0].Failed, all[1].Rounds[0].FirstFail = 2, "cut"
	size := cost.Tiny()
	return performanceReport(&cost.Result{
		Contestants: []cost.Contestant{{Name: cost.FleetName, About: "Two."}, {Name: cost.ServeName, About: "One."}, {Name: cost.ChainName, About: "Bare."}},
		LeftOut:     []string{"haproxy is not installed"},
		Plain:       all, Spaced: all, Rate: 1234, Chunks: all,
		Open: []cost.Held{{Contestant: cost.FleetName, Node: "colo", Each: 30 << 10}, {Contestant: cost.FleetName, Node: "entry", Each: 20 << 10},
			{Contestant: cost.ServeName, Node: "serve", Each: 10 << 10}},
		Many:     []cost.Many{{Contestant: cost.DirectName, Streams: 9, P99: 100}, {Contestant: cost.FleetName, Streams: 9, P99: 200, CPU: 0.5}},
		Start:    &cost.Start{FirstAnswer: []float64{50, 40, 70}, Rest: 32 << 20, RestOwn: 8 << 20},
		Programs: []cost.Program{{Name: "colonnade", Bytes: 43 << 20}},
		Ship: []cost.Shipped{{Sink: "file", Rounds: []cost.ShipRound{
			{With: turnOf(1500, 2100, 2.2e5, 10<<20), Without: turnOf(1000, 2000, 1e5, 8<<20), Events: 60_000},
			{With: turnOf(1500, 2100, 2.2e5, 10<<20), Without: turnOf(1000, 2100, 1e5, 8<<20), Events: 60_000},
		}}},
		Functions: []cost.Function{{What: "get a permit", Package: "permits", Nanos: 90, MostNanos: 100}},
	}, &size)
}

// turnOf is a turn of a hundred requests, of which 2 are slow.
func turnOf(latency, slow, used, memory float64) cost.ShipTurn {
	all := []float64{slow, slow}
	for range 98 {
		all = append(all, latency)
	}
	return cost.ShipTurn{Latencies: all, Used: used, Memory: memory}
}

func TestPerformancePage(t *testing.T) {
	text := render(t, samplePerformance())
	for _, want := range []string{
		"8 of 15 aims are met, 7 missed.",
		"| ✗ | [processor time of a plain request ÷ bare chain](#plain-as-many-plain-requests-as-are-answered) | entry + colo | at most 1.6 × | 1.75 × |\n",
		"| ✓ | [processor time of a plain request ÷ entry + colo](#plain-as-many-plain-requests-as-are-answered) | serve | at most 0.6 × | 0.400 × |\n",
		"| ✗ | [memory of an open stream in each node](#open-memory-of-open-streams) | entry + colo | at most 24 KiB | 30.0 KiB |\n",
		"| ✓ | [gap p99 of 9 streams ÷ the engine's own](#many-very-many-open-streams) | entry + colo | less than 3 × | 2.00 × |\n",
		"| ✓ | [start to first answer](#start-start-and-rest-of-one-process) | serve | less than 300 ms | 50.0 ms |\n",
		"| file | 60000 | 2.00 | 2.00 | 1.50 | 2.10 | 1.50 | 1.05 | 1.00 | 1.05 | 0 |",
		"![Processor time of a plain request](performance/plain-cpu.png)",
		"| entry + colo | 35.0 | 30.0 | 40.0 | 1.75 | 1.50 |",
		"| entry + colo | 20.0 | 30.0 |\n| serve | **10.0** | – |",
		"- Left out: haproxy is not installed.\n",
		"- serve: the first that failed: cut\n",
		"1234 a second",
		"## Tried and not kept",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have\n%s\nbut is\n%s", want, text)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "thresholds") {
		t.Error("the page shows what was not measured, or calls an aim a threshold")
	}
}

// A run of some scenarios has a page, without the others.
func TestPerformancePageOfOneScenario(t *testing.T) {
	size := cost.Tiny()
	r := performanceReport(&cost.Result{Plain: []cost.Figures{figuresOf(cost.ServeName, 1)}}, &size)
	if text := render(t, r); !strings.Contains(text, "## plain") || strings.Contains(text, "## chunk") || strings.Contains(text, "NaN") {
		t.Errorf("the page is\n%s", text)
	}
	if got := r.Scenarios[0].Thresholds[0]; got.Passed || got.Got.Measured() {
		t.Errorf("an aim without a contestant to compare with: %+v", got)
	}
}

func TestPerformanceIsReadAsItWasWritten(t *testing.T) {
	var b, again bytes.Buffer
	if err := WriteJSON(&b, samplePerformance()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	back, err := ReadJSON(&b)
	if err != nil || WriteJSON(&again, back) != nil || again.String() != text {
		t.Errorf("%v; it is not read as it was written", err)
	}
	if files, err := Save(back, t.TempDir()); err != nil || !strings.HasSuffix(files[0], "performance.md") || len(files) < 8 {
		t.Errorf("%v; it wrote %q", err, files)
	}
}

func TestAnchor(t *testing.T) {
	if got := anchor("plain: as many 10-KB requests, once"); got != "plain-as-many-10-kb-requests-once" {
		t.Error(got)
	}
}
