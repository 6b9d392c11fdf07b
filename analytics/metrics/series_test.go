package metrics_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics"
	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/permits"
)

// tableOf returns a table with empty documents under the keys.
func tableOf(t *testing.T, keys ...string) *fleet.Table {
	t.Helper()
	all := document.NewSet()
	for _, key := range keys {
		if err := all.Put(key, []byte("{}"), 1); err != nil {
			t.Fatal(err)
		}
	}
	return all.Table()
}

// The series of a name go an hour after the table has lost it and its last request has ended, and only then.
func TestSeriesOfDeletedNamesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		table := tableOf(t, "models/a", "models/b", "colos/ams", "colos/fra")
		m := metrics.NewEntry(reg, func() *fleet.Table { return table }, func() []metrics.ModelState { return nil }, 0)
		finish := func(model, pool string) {
			m.Finished(&analytics.Event{Model: model, Pool: pool, Outcome: analytics.OutcomeCompleted, TimeToFirstToken: 1, PromptTokens: 3})
		}
		f := func(after time.Duration, series ...string) {
			t.Helper()
			time.Sleep(after)
			text := scrape(t, reg)
			for _, s := range []string{`model="a"`, `model="b"`, `model="unknown"`, `colo="ams"`, `colo="fra"`} {
				if want := strings.Contains(strings.Join(series, " "), s); strings.Contains(text, s) != want {
					t.Errorf("series with %s: %v, want %v", s, !want, want)
				}
			}
		}
		finish("a", "p")
		finish("b", "p")
		finish("guess", "")
		m.ForwardFailure("ams")
		m.ForwardFailure("fra")
		f(0, `model="a"`, `model="b"`, `model="unknown"`, `colo="ams"`, `colo="fra"`)
		table = tableOf(t, "models/a", "colos/ams")
		f(0, `model="a"`, `model="b"`, `model="unknown"`, `colo="ams"`, `colo="fra"`)
		time.Sleep(30 * time.Minute)
		finish("b", "p") // a long one, which began before
		f(0, `model="a"`, `model="b"`, `model="unknown"`, `colo="ams"`, `colo="fra"`)
		f(31*time.Minute, `model="a"`, `model="b"`, `model="unknown"`, `colo="ams"`)
		f(30*time.Minute, `model="a"`, `model="unknown"`, `colo="ams"`)
		finish("b", "p")
		f(0, `model="a"`, `model="b"`, `model="unknown"`, `colo="ams"`)
		table = tableOf(t, "models/a", "models/b", "colos/ams")
		f(30*time.Minute, `model="a"`, `model="b"`, `model="unknown"`, `colo="ams"`)
		f(24*time.Hour, `model="a"`, `model="b"`, `model="unknown"`, `colo="ams"`)
	})
}

// So do those of a pool at a colo.
func TestSeriesOfDeletedPoolsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		table := tableOf(t, "pools/p", "pools/q")
		m := metrics.NewColo(reg, func() *fleet.Table { return table }, func() []permits.Stats { return nil }, 0)
		m.QueueWait("p", time.Second)
		m.Retried("q")
		table = tableOf(t, "pools/p")
		compare(t, reg, `
			colonnade_queue_wait_seconds_count{pool="p"} 1
			colonnade_pool_retries_total{pool="q"} 1`)
		time.Sleep(time.Hour)
		compare(t, reg, `colonnade_queue_wait_seconds_count{pool="p"} 1`)
		if strings.Contains(scrape(t, reg), `pool="q"`) {
			t.Error("series of a deleted pool stay")
		}
	})
}
