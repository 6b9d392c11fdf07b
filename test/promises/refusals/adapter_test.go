package refusals_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// adapterFleet is a fleet with two engines of the model base, of which the first has the adapter sql-v1 for the model sql.
type adapterFleet struct {
	*fleettest.Fleet
	with, without *simengine.Engine
	urls          [2]string
	logged        *testkit.SyncBuffer
}

func startAdapterFleet(t *testing.T, ofModel string) *adapterFleet {
	f := &adapterFleet{logged: &testkit.SyncBuffer{}}
	documents := "key: models/base\npool: lora\n---\nkey: models/sql\npool: lora\nupstream_name: sql-v1\n" + ofModel
	for i, engine := range []**simengine.Engine{&f.with, &f.without} {
		*engine = simengine.New(simengine.Config{Slots: 4, TTFT: time.Millisecond, ITL: time.Millisecond, Models: []string{"base"}})
		server := httptest.NewServer(*engine)
		t.Cleanup(server.Close)
		f.urls[i] = server.URL
		documents += fmt.Sprintf("---\nkey: endpoints/ams/lora-%d\nurl: %s\npool: lora\nconcurrency: 4\nhealth: {path: /health, interval: 50ms}\n", i, server.URL)
	}
	f.with.LoadAdapters("sql-v1")
	c := onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(1)}
	c.Logger = func(string) *slog.Logger { return slog.New(slog.NewTextHandler(f.logged, nil)) }
	f.Fleet = fleettest.Start(t, c, documents)
	f.WatchShared(16)
	return f
}

// wantMetrics waits until the metrics of the colo server have a line.
func (f *adapterFleet) wantMetrics(line string) {
	f.T.Helper()
	testkit.WaitFor(f.T, line, func() bool { return strings.Contains(string(f.Page(f.Colos[0].Admin, "/metrics")), line) })
}

func chatOf(model string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[]}`, model)
}

// An adapter that one engine of a pool lacks, under load: no request fails, neither for the adapter nor for the other model, the engine
// stays up, and operators see which engine lacks what.
func TestAdapterThatOneEngineLacks(t *testing.T) {
	t.Parallel()
	f := startAdapterFleet(t, "")
	var all sync.WaitGroup
	for client := range 10 {
		all.Go(func() {
			for i := range 15 {
				model := []string{"sql", "base"}[(client+i)%2]
				if a := f.Chat(chatOf(model)); a.Status != 200 {
					t.Errorf("%s: %d %s", model, a.Status, a.Body)
				}
				for _, e := range f.Pool("ams", "lora").Endpoints {
					if e.State != "up" {
						t.Errorf("engine %s is %s", e.ID, e.State)
					}
				}
			}
		})
	}
	all.Wait()
	if n := f.without.Stats().Served; n == 0 {
		t.Error("the engine without the adapter has served nothing")
	}
	if log := f.logged.String(); !strings.Contains(log, "endpoint does not have what a request needs") || !strings.Contains(log, "404: this engine does not serve the model") ||
		strings.Contains(log, "state=ejected") {
		t.Errorf("the log: %s", log)
	}
	testkit.WaitFor(t, "the engine to be shown without the model", func() bool {
		a := f.Chat(chatOf("sql"))
		lacks := f.Pool("ams", "lora").Lacks
		return a.Status == 200 && len(lacks) == 1 && lacks[0].URL == f.urls[1] && lacks[0].Model == "sql"
	})
	f.without.LoadAdapters("sql-v1")
	testkit.WaitFor(t, "the list of the engine to show the adapter", func() bool { return len(f.Pool("ams", "lora").Lacks) == 0 })
}

// An adapter that no engine has is refused with its reason, and is served soon after one has loaded it; the other model is served
// throughout.
func TestAdapterThatNoEngineHas(t *testing.T) {
	t.Parallel()
	f := startAdapterFleet(t, "adapter: sql-v1\n")
	f.with.LoadAdapters()
	for range 5 {
		if a := f.Chat(chatOf("sql")); a.Status != 503 || !strings.Contains(a.Body, `"reason":"model_not_loaded"`) || !strings.Contains(a.Body, "not loaded.") ||
			a.Header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
		}
		if a := f.Chat(chatOf("base")); a.Status != 200 {
			t.Errorf("the other model: %d %s", a.Status, a.Body)
		}
	}
	const problem = `colonnade_problems{kind="engine_lacks_model",severity="%s"} %d` + "\n"
	if n := f.Metric(f.Colos[0].Admin, `colonnade_endpoint_lacks{endpoint="lora-1",model="sql",path="",pool="lora"}`); n != 1 {
		t.Errorf("the metric of the pair is %v", n)
	}
	f.wantMetrics(fmt.Sprintf(problem, "error", 1))
	f.with.LoadAdapters("sql-v1")
	testkit.WaitFor(t, "the adapter to be served", func() bool { return f.Chat(chatOf("sql")).Status == 200 })
	f.wantMetrics(fmt.Sprintf(problem, "error", 0))
	f.without.LoadAdapters("sql-v1")
	f.wantMetrics(fmt.Sprintf(problem, "warning", 0))
}
