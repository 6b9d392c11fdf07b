package metrics_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/analytics/ship"
	"colonnade/internal/docpage"
	"colonnade/permits"
	"colonnade/worker/gpu"
)

// metric is a row of the page.
type metric struct {
	name, kind, help string
	labels           []string
	nodes            []string
}

// entryMetrics registers what an entry has, with one series of each metric at least.
func entryMetrics() *metrics.Registry {
	reg := prometheus.NewRegistry()
	m := metrics.NewEntry(reg, emptyTable, func() []metrics.ModelState { return []metrics.ModelState{{Model: "m"}} }, 1)
	m.Finished(&analytics.Event{Account: "a", Outcome: analytics.OutcomeRefused, Reason: "queue_full"})
	m.Finished(finished())
	m.ForwardFailure("c")
	m.Refused("queue_full")
	m.RefusedByEntry("m")
	m.UsageEstimated("m")
	m.PromptRefused("m")
	metrics.RegisterColos(reg, func() []metrics.ColoState { return []metrics.ColoState{{Colo: "c"}} })
	metrics.RegisterCertificate(reg, "public", time.Now)
	metrics.RegisterRedis(reg, func() bool { return true })
	metrics.RegisterLinks(reg, "out", func() metrics.LinkStats { return metrics.LinkStats{} })
	nodeMetrics(reg)
	return reg
}

// coloMetrics does so for a colo server.
func coloMetrics() *metrics.Registry {
	reg := prometheus.NewRegistry()
	m := metrics.NewColo(reg, emptyTable, func() []permits.Stats {
		return []permits.Stats{{
			Pool: "p", Endpoints: []permits.EndpointStats{{Health: permits.Health{ID: "e", State: "up", Engine: &permits.EngineStats{
				Running: new(1), Waiting: new(1), Beside: new(1),
				KVCache: new(0.5), PrefixHits: new(0.5), PrefixQueried: new(2.0), PrefixFound: new(1.0), AgeSeconds: new(1.0),
			}, Cache: &permits.CacheStats{SizeBytes: new(int64(1)), Events: &permits.CacheEvents{ResidentTokens: new(int64(1))}}}}},
			Refused: map[permits.Reason]uint64{permits.QueueFull: 1}, Balance: permits.BalanceStats{Choices: map[string]map[string]uint64{"least_loaded": {"load": 1}}}, Lacks: []permits.LackStats{{Model: "m"}},
		}}
	}, 1)
	m.Finished(finished())
	m.Finished(&analytics.Event{Account: "a", Cost: 1, CostUnit: "USD"})
	abroad := finished()
	abroad.ColoID, abroad.Endpoint, abroad.ExternalEndpoint = "c", "e", true
	m.Finished(abroad)
	m.QueueWait("p", time.Second)
	metrics.RegisterLinks(reg, "in", func() metrics.LinkStats { return metrics.LinkStats{} })
	metrics.RegisterLinks(reg, "out", func() metrics.LinkStats { return metrics.LinkStats{} })
	m.Retried("p")
	m.Forwarded(finished())
	metrics.RegisterGrants(reg, func() bool { return true })
	metrics.RegisterHomes(reg, func() metrics.HomesState { return metrics.HomesState{} })
	nodeMetrics(reg)
	return reg
}

// workerMetrics does so for a worker.
func workerMetrics() *metrics.Registry {
	reg := prometheus.NewRegistry()
	figure, watts, reasons := uint32(1), 1.0, uint64(1)
	reg.MustRegister(metrics.NewGPUs(func() metrics.GPUStats {
		return metrics.GPUStats{GPUs: []metrics.GPU{{EngineMemory: 1, GPU: &gpu.GPU{
			Utilization: &figure, Power: &watts, PowerLimit: &watts, Temperature: &figure, MemoryTemperature: &figure, SMClock: &figure,
			MemoryClock: &figure, ClockReasons: &reasons, ECC: &gpu.ECC{},
		}}}}
	}))
	return reg
}

func nodeMetrics(reg *metrics.Registry) {
	metrics.RegisterBuild(reg, metrics.Build{Version: "v1.0.0", Revision: "0123456789ab", Go: "go1.26.0"})
	metrics.RegisterConfig(reg, func() metrics.ConfigState { return metrics.ConfigState{} })
	metrics.RegisterConnections(reg, func() metrics.ConnStats { return metrics.ConnStats{} })
	metrics.RegisterOutOfTurn(reg, func() int { return 0 })
	metrics.RegisterSpans(reg, func() metrics.Spans { return metrics.Spans{} })
	metrics.RegisterEvents(reg, func() journal.Stats { return journal.Stats{} })
	metrics.RegisterSinks(reg, func() []ship.Stats { return []ship.Stats{{Name: "s"}} })
	metrics.RegisterProblems(reg, func() map[metrics.ProblemLabels]int {
		return map[metrics.ProblemLabels]int{{Kind: "no_model", Severity: "error"}: 0}
	})
	metrics.RegisterCertificate(reg, "peer", time.Now)
}

func finished() *analytics.Event {
	return &analytics.Event{Model: "m", Pool: "p", Outcome: analytics.OutcomeCompleted, TimeToFirstToken: 1, PromptTokens: 1}
}

// registered returns all metrics of nodes and workers by name, and fails if one name has two sets of labels.
func registered(t *testing.T) map[string]*metric {
	t.Helper()
	all := map[string]*metric{}
	for node, reg := range map[string]*metrics.Registry{"entry": entryMetrics(), "colo": coloMetrics(), "worker": workerMetrics()} {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			m := &metric{name: f.GetName(), kind: strings.ToLower(f.GetType().String()), help: f.GetHelp()}
			for _, l := range f.GetMetric()[0].GetLabel() {
				m.labels = append(m.labels, l.GetName())
			}
			if other := all[m.name]; other == nil {
				all[m.name] = m
			} else if !slices.Equal(other.labels, m.labels) {
				t.Errorf("%s has the labels %v at one kind of node, and %v at another", m.name, m.labels, other.labels)
			}
			all[m.name].nodes = append(all[m.name].nodes, node)
		}
		problems, err := testutil.GatherAndLint(reg)
		problems = slices.DeleteFunc(problems, func(p promlint.Problem) bool {
			return p.Metric == "inference_gpu_info" && strings.Contains(p.Text, "snake_case") // modelName is what NVIDIA's exporter has
		})
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: lint: %v, %v", node, problems, err)
		}
		if n := described(reg); n != len(families) {
			t.Errorf("%s: %d metrics are registered and %d have a series here", node, n, len(families))
		}
	}
	return all
}

// described counts the names of what is registered, also of what has no series.
func described(reg *metrics.Registry) int {
	descs := make(chan *prometheus.Desc)
	go func() {
		reg.Describe(descs)
		close(descs)
	}()
	names := map[string]bool{}
	for d := range descs {
		name, _, _ := strings.Cut(d.String(), ",") // Desc{fqName: "…"
		names[name] = true
	}
	return len(names)
}

func TestPageListsAllMetrics(t *testing.T) {
	all := registered(t)
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		slices.Sort(m.nodes)
		rows = append(rows, []string{"`" + name + "`", m.kind, strings.Join(m.labels, ", "), strings.Join(m.nodes, ", "), m.help})
	}
	docpage.Check(t, "docs/metrics.md", map[string]string{
		"metrics": docpage.Table([]string{"metric", "type", "labels", "nodes", "meaning"}, rows),
	})
}

// Each query of the page names metrics that exist, and groups by labels that they have.
func TestPageQueries(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := registered(t)
	query := regexp.MustCompile("(?s)```promql\n(.*?)```")
	_, first, _ := strings.Cut(string(text), "\n## The first five queries\n")
	first, _, _ = strings.Cut(first, "\n## ")
	if n := len(query.FindAllString(first, -1)); n != 5 {
		t.Errorf("%d queries in the first section, want 5", n)
	}
	queries := query.FindAllStringSubmatch(string(text), -1)
	for _, q := range queries {
		labels := []string{"le", "job", "instance"} // the first is of histograms, the others are a scraper's
		names := regexp.MustCompile(`\b(inference|colonnade)_\w+`).FindAllString(q[1], -1)
		if len(names) == 0 {
			t.Errorf("no metric in %s", q[1])
		}
		for _, name := range names {
			m := all[name]
			if base, ok := strings.CutSuffix(name, "_bucket"); ok && all[base] != nil && all[base].kind == "histogram" {
				m = all[base]
			}
			if m == nil {
				t.Errorf("no node has %s", name)
				continue
			}
			labels = append(labels, m.labels...)
		}
		for _, by := range regexp.MustCompile(`by \((.*?)\)|(\w+)=`).FindAllStringSubmatch(q[1], -1) {
			for _, label := range strings.Split(by[1]+by[2], ", ") {
				if !slices.Contains(labels, label) {
					t.Errorf("no label %s in %s", label, q[1])
				}
			}
		}
	}
}
