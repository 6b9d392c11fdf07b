package alerts_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"colonnade/analytics/metrics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
	"colonnade/worker/gpu"
)

// dashboard is what the tests read of the file.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/grafana/colonnade.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// everyMatch replaces the variables of the dashboard as Grafana does where all values are selected.
var everyMatch = strings.NewReplacer("$__rate_interval", "2m", "$pool", ".*", "$model", ".*")

// TestQueries compares the queries of the rules and of the dashboard with what a busy fleet exports: each name exists, and each panel has
// something to show.
func TestQueries(t *testing.T) {
	t.Parallel()
	exports := busyFleet(t)
	names := vocabularyOf(exports...)
	for _, r := range rules(t) {
		names.check(t, r.Alert, r.Expr)
	}
	d := readDashboard(t)
	for _, v := range d.Templating.List {
		if query, found := strings.CutPrefix(v.Definition, "label_values("); found {
			metric, label, _ := strings.Cut(strings.TrimSuffix(query, ")"), ", ")
			if names[metric][label] == nil {
				t.Errorf("variable %s: %s has no label %s", v.Name, metric, label)
			}
		}
	}
	var expected []expectation
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			names.check(t, p.Title, target.Expr)
			for _, label := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !names.has(target.Expr, label[1]) {
					t.Errorf("%s: no metric of the query has the label %s, which the legend names", p.Title, label[1])
				}
			}
			query := fmt.Sprintf("count(%s) > bool 0", everyMatch.Replace(target.Expr))
			expected = append(expected, expectation{query: query, at: lasting - interval, samples: map[string]float64{"{}": 1}})
		}
	}
	evaluate(t, stretch(period{length: lasting, exports: exports}), expected...)
}

// busyFleet records a fleet in which everything happens that a panel shows, so often that each rate has something to count.
func busyFleet(t *testing.T) (exports []*export) {
	c := onebox.Config{Colos: []string{"ams"}, Engines: 2, Engine: fleettest.QuickEngine(1), MetricsAccounts: 3}
	own := fleettest.QuickEngine(4)
	own.Kind = "vllm" // whose metrics are read
	_, documents := fleettest.StartKind(t, "own", own, "type: chat")
	secure := fleettest.StartSecure(t, c, "key: pools/demo\nqueue: {limit: 1, per_account: 5, max_wait: 60s}\n"+
		"---\nkey: models/demo-chat\npool: demo\ntype: chat\ncost: {unit: USD, input: 1, output: 2, per: 1000}\n"+strings.Replace(documents, "engine: vllm\n", "engine: vllm\nhealth: {interval: 1s}\n", 1),
		func(f *fleettest.SecureFleet) {
			f.WebFiles.Put(f.WebCA, "", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(90 * 24 * time.Hour) })
		})
	f := secure.Fleet
	for n := range 3 {
		awaitFigures(t, f, n)
		f.Chat(fleettest.ChatBody(4, false))
		f.InjectFault(simengine.FaultCutAtChunk, 1)
		for range 4 {
			f.Chat(fleettest.ChatBody(8, true))
		}
		f.ClearFaults()
		f.Engine("ams").SetFault(simengine.Fault{Fault: simengine.FaultRefuse, Count: 1})
		testkit.WaitFor(t, "a further attempt", func() bool {
			f.Chat(fleettest.ChatBody(1, false))
			return strings.Contains(string(f.Page(f.Colos[0].Admin, "/metrics")), `colonnade_pool_retries_total{pool="demo"}`)
		})
		f.ClearFaults()
		overload(t, f)
		e := scrape(f, nil)
		e.add(t, workerPage(t), `job="worker",instance="gpu-7"`)
		exports = append(exports, e)
	}
	return exports
}

// awaitFigures sends a request to the engine with metrics, and waits until the server of its colo has read that. Metrics are read as often as the
// health path.
func awaitFigures(t *testing.T, f *fleettest.Fleet, n int) {
	t.Helper()
	f.Chat(strings.Replace(fleettest.ChatBody(4, false), `"demo-chat"`, `"own"`, 1))
	testkit.WaitFor(t, "the metrics of an engine", func() bool {
		return f.Metric(f.Colos[0].Admin, `inference_engine_prefix_cache_queried_tokens_total{endpoint="own",pool="own"}`) > float64(n)
	})
}

// workerPage returns the metrics of a worker whose engine uses a GPU that is too hot.
func workerPage(t *testing.T) string {
	t.Helper()
	used, watts, degrees, slowed := uint32(85), 512.5, uint32(88), uint64(0x20)
	one := metrics.GPU{GPU: &gpu.GPU{
		UUID: "GPU-1", Name: "NVIDIA H200", MemoryTotal: 1 << 37, MemoryUsed: 1 << 36, Utilization: &used, Power: &watts, Temperature: &degrees, ClockReasons: &slowed,
	}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewGPUs(func() metrics.GPUStats {
		return metrics.GPUStats{Known: true, Driver: "580.65.06", GPUs: []metrics.GPU{one}, Endpoint: "gpu-7-8000", Pool: "demo"}
	}))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

// A GPU that is slowed by heat for minutes fires the alert, and one that is slowed for a moment does not.
func TestHotGPU(t *testing.T) {
	t.Parallel()
	hot := &export{taken: time.Now(), values: map[string]float64{}, kinds: map[string]string{}}
	hot.add(t, workerPage(t), `job="worker",instance="gpu-7"`)
	cool := &export{taken: hot.taken, kinds: hot.kinds, values: maps.Clone(hot.values)}
	for series := range cool.values {
		if strings.HasPrefix(series, "inference_gpu_clocks_event_reason{") {
			cool.values[series] = 0
		}
	}
	samples := stretch(period{length: calm, exports: []*export{cool}}, period{length: lasting, exports: []*export{hot}})
	evaluate(t, samples, firing(calm-interval), firing(calm+time.Minute), firing(calm+lasting-interval, "ColonnadeGPUSlowed"))
}

// overload fills the slots and the queue, and has one more request refused.
func overload(t *testing.T, f *fleettest.Fleet) {
	t.Helper()
	f.InjectFault(simengine.FaultStallStream, 1)
	release := f.HoldStreams(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = f.Post(ctx, "/chat/completions", fleettest.ChatBody(1, false)) })
	testkit.WaitFor(t, "a request to wait", func() bool { return f.Pool("ams", "demo").Queued == 1 })
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 429 {
		t.Errorf("answer %d: %s", a.Status, a.Body)
	}
	cancel()
	waiting.Wait()
	release()
	f.ClearFaults()
	testkit.WaitFor(t, "the slots to be free", func() bool { return f.Pool("ams", "demo").Held == 0 })
}

// Grafana shows panels that overlap, or two with one id, badly.
func TestDashboardLayout(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if d.UID == "" || len(d.Panels) < 20 {
		t.Errorf("uid %q, %d panels", d.UID, len(d.Panels))
	}
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, found := ids[p.ID]; found {
			t.Errorf("%s and %s have the id %d", p.Title, other, p.ID)
		}
		ids[p.ID] = p.Title
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("%s has no description or no query", p.Title)
		}
		g := p.GridPos
		if g.X+g.W > 24 || g.W == 0 || g.H == 0 {
			t.Errorf("%s is at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, found := taken[[2]int{x, y}]; found {
					t.Fatalf("%s overlaps %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
