package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"colonnade/analytics"
	"colonnade/analytics/metrics"
	"colonnade/permits"
	"colonnade/reasons"
)

func endpointStats(id, state string, slots, held int) permits.EndpointStats {
	return permits.EndpointStats{Health: permits.Health{ID: id, State: state}, URL: "http://" + id + state, Concurrency: slots, Held: held}
}

func TestStateAndSlotsOfEachEndpoint(t *testing.T) {
	reg := prometheus.NewRegistry()
	pools := []permits.Stats{{Pool: "p", Endpoints: []permits.EndpointStats{endpointStats("gpu-1", "up", 8, 3), endpointStats("gpu-2", "down", 4, 0)}}}
	metrics.NewColo(reg, emptyTable, func() []permits.Stats { return pools }, 0)
	compare(t, reg, `
		colonnade_endpoint_state{endpoint="gpu-1",pool="p",state="up"} 1
		colonnade_endpoint_state{endpoint="gpu-1",pool="p",state="down"} 0
		colonnade_endpoint_state{endpoint="gpu-1",pool="p",state="silent"} 0
		colonnade_endpoint_state{endpoint="gpu-2",pool="p",state="up"} 0
		colonnade_endpoint_state{endpoint="gpu-2",pool="p",state="down"} 1
		colonnade_endpoint_slots{endpoint="gpu-1",pool="p"} 8
		colonnade_endpoint_slots_held{endpoint="gpu-1",pool="p"} 3
		colonnade_endpoint_failures_total{endpoint="gpu-2",pool="p",reason="engine_status"} 0
		colonnade_endpoint_time_to_first_token_seconds_count{endpoint="gpu-1",pool="p"} 0`)
	pools[0].Endpoints[0].State = "a later version's"
	compare(t, reg, `colonnade_endpoint_state{endpoint="gpu-1",pool="p",state="a later version's"} 1`)
}

// There is a series of each thing that is known of an engine's prefix cache.
func TestCacheMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	all, lost, none := endpointStats("gpu-1", "up", 8, 3), endpointStats("gpu-2", "up", 8, 3), endpointStats("gpu-3", "up", 8, 3)
	all.Indexed = 1000
	all.Cache = &permits.CacheStats{SizeBytes: new(int64(4000)), Losses: 2,
		Events: &permits.CacheEvents{Connected: true, Events: 70, Gaps: 1, ResidentTokens: new(int64(900))}}
	lost.Cache = &permits.CacheStats{Events: &permits.CacheEvents{Error: "refused"}}
	pools := []permits.Stats{{Pool: "p", Endpoints: []permits.EndpointStats{all, lost, none}}}
	metrics.NewColo(reg, emptyTable, func() []permits.Stats { return pools }, 0)
	compare(t, reg, `
		colonnade_endpoint_indexed_bytes{endpoint="gpu-1",pool="p"} 1000
		colonnade_endpoint_indexed_bytes{endpoint="gpu-2",pool="p"} 0
		colonnade_endpoint_prefix_cache_bytes{endpoint="gpu-1",pool="p"} 4000
		colonnade_endpoint_prefix_cache_losses_total{endpoint="gpu-1",pool="p"} 2
		colonnade_endpoint_prefix_cache_losses_total{endpoint="gpu-2",pool="p"} 0
		inference_engine_kv_events_connected{endpoint="gpu-1",pool="p"} 1
		inference_engine_kv_events_connected{endpoint="gpu-2",pool="p"} 0
		inference_engine_kv_events_total{endpoint="gpu-1",pool="p"} 70
		inference_engine_kv_events_gaps_total{endpoint="gpu-1",pool="p"} 1
		inference_engine_kv_cache_resident_tokens{endpoint="gpu-1",pool="p"} 900`)
	if n, err := testutil.GatherAndCount(reg, "colonnade_endpoint_indexed_bytes", "inference_engine_kv_cache_resident_tokens"); err != nil || n != 3 {
		t.Errorf("%d series, %v", n, err)
	}
}

// There is a series of each thing that an engine says about itself, and none of what it does not.
func TestEnginesOwnMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	says, silent, other := endpointStats("gpu-1", "up", 8, 3), endpointStats("gpu-2", "up", 8, 3), endpointStats("gpu-3", "up", 8, 3)
	says.Engine = &permits.EngineStats{
		Running: new(3), Waiting: new(0), Beside: new(1), KVCache: new(0.42), PrefixHits: new(0.31), PrefixQueried: new(1000.0), PrefixFound: new(310.0),
		AgeSeconds: new(2.5), Adapters: []string{"a"},
	}
	silent.Engine = &permits.EngineStats{Error: "404"}
	pools := []permits.Stats{{Pool: "p", Endpoints: []permits.EndpointStats{says, silent, other}}}
	metrics.NewColo(reg, emptyTable, func() []permits.Stats { return pools }, 0)
	compare(t, reg, `
		inference_engine_requests_running{endpoint="gpu-1",pool="p"} 3
		inference_engine_requests_waiting{endpoint="gpu-1",pool="p"} 0
		inference_engine_requests_beside{endpoint="gpu-1",pool="p"} 1
		inference_engine_kv_cache_usage_ratio{endpoint="gpu-1",pool="p"} 0.42
		inference_engine_prefix_cache_hit_ratio{endpoint="gpu-1",pool="p"} 0.31
		inference_engine_prefix_cache_queried_tokens_total{endpoint="gpu-1",pool="p"} 1000
		inference_engine_prefix_cache_hit_tokens_total{endpoint="gpu-1",pool="p"} 310
		inference_engine_metrics_age_seconds{endpoint="gpu-1",pool="p"} 2.5`)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "inference_engine_") && len(f.GetMetric()) != 1 {
			t.Errorf("%s has %d series", f.GetName(), len(f.GetMetric()))
		}
	}
}

// Without this, the time in the queue would hide which endpoint is slow.
func TestTimeToFirstTokenOfAnEndpointBeginsWithThePermit(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := metrics.NewColo(reg, emptyTable, func() []permits.Stats { return nil }, 0)
	m.Finished(&analytics.Event{
		Model: "m", Pool: "p", Endpoint: "gpu-1", Outcome: analytics.OutcomeCompleted,
		TimeToFirstToken: analytics.Milliseconds(7 * time.Second), RequestTime: analytics.Milliseconds(9 * time.Second), InferenceTime: analytics.Milliseconds(3 * time.Second),
	})
	compare(t, reg, `
		colonnade_endpoint_time_to_first_token_seconds_sum{endpoint="gpu-1",pool="p"} 1
		inference_time_to_first_token_seconds_sum{model="m"} 7`)
}

func TestFailuresOfEachEndpointByReason(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := metrics.NewColo(reg, emptyTable, func() []permits.Stats { return nil }, 0)
	end := func(outcome analytics.Outcome, reason string) {
		m.Finished(&analytics.Event{Model: "m", Pool: "p", Endpoint: "gpu-1", Outcome: outcome, Reason: reason})
	}
	end(analytics.OutcomeCompleted, "")
	end(analytics.OutcomeClientGone, reasons.ClientGone)
	end(analytics.OutcomeRefused, reasons.EngineFull)
	end(analytics.OutcomeEngineError, reasons.EngineStatus)
	end(analytics.OutcomeEngineError, reasons.EngineStatus)
	end(analytics.OutcomeEngineError, "")
	end(analytics.OutcomeEngineError, "words of an engine")
	end(analytics.OutcomeTimeout, reasons.FirstByteTimeout)
	compare(t, reg, `
		colonnade_endpoint_failures_total{endpoint="gpu-1",pool="p",reason="engine_status"} 2
		colonnade_endpoint_failures_total{endpoint="gpu-1",pool="p",reason="engine_error"} 1
		colonnade_endpoint_failures_total{endpoint="gpu-1",pool="p",reason="other"} 1
		colonnade_endpoint_failures_total{endpoint="gpu-1",pool="p",reason="first_byte_timeout"} 1
		colonnade_endpoint_failures_total{endpoint="gpu-1",pool="p",reason="truncated"} 0`)
	if text := scrape(t, reg); strings.Contains(text, `reason="client_gone"`) || strings.Contains(text, `reason="engine_full"`) {
		t.Error("clients that leave, and engines that are full, count as failures of an endpoint")
	}
}

// The state of an endpoint goes with its document, also while permits are held on it, and its counters five minutes later.
func TestSeriesOfDeletedEndpointsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		both := []permits.Stats{{Pool: "p", Endpoints: []permits.EndpointStats{endpointStats("gpu-1", "up", 8, 3), endpointStats("gpu-2", "up", 4, 1)}}}
		pools := both
		m := metrics.NewColo(reg, emptyTable, func() []permits.Stats { return pools }, 0)
		finish := func() {
			m.Finished(&analytics.Event{Model: "m", Pool: "p", Endpoint: "gpu-2", Outcome: analytics.OutcomeTimeout, Reason: reasons.TotalTimeout})
		}
		f := func(after time.Duration, state, counters bool) {
			t.Helper()
			time.Sleep(after)
			text := scrape(t, reg)
			for series, want := range map[string]bool{
				`endpoint=""`: false, `colonnade_endpoint_state{endpoint="gpu-1"`: true, `colonnade_endpoint_failures_total{endpoint="gpu-1"`: true,
				`colonnade_endpoint_state{endpoint="gpu-2"`: state, `colonnade_endpoint_slots{endpoint="gpu-2"`: state,
				`colonnade_endpoint_failures_total{endpoint="gpu-2"`:                     counters,
				`colonnade_endpoint_time_to_first_token_seconds_bucket{endpoint="gpu-2"`: counters,
			} {
				if strings.Contains(text, series) != want {
					t.Errorf("series %s: %v, want %v", series, !want, want)
				}
			}
		}
		finish()
		f(0, true, true)
		gone := permits.EndpointStats{Health: permits.Health{State: "gone"}, URL: "http://gpu-2", Held: 1}
		pools = []permits.Stats{{Pool: "p", Endpoints: []permits.EndpointStats{both[0].Endpoints[0], gone}}}
		f(0, false, true)
		f(4*time.Minute, false, true)
		finish() // the request that held the permit
		f(4*time.Minute, false, true)
		f(6*time.Minute, false, false)
		pools = both
		f(0, true, true)
		compare(t, reg, `colonnade_endpoint_failures_total{endpoint="gpu-2",pool="p",reason="total_timeout"} 0`)
	})
}

// Two documents with one name would make the whole page fail.
func TestEndpointsOfOneNameDoNotBreakThePage(t *testing.T) {
	reg := prometheus.NewRegistry()
	pools := []permits.Stats{{Pool: "p", Endpoints: []permits.EndpointStats{endpointStats("gpu-1", "up", 8, 3), endpointStats("gpu-1", "down", 8, 3)}}}
	metrics.NewColo(reg, emptyTable, func() []permits.Stats { return pools }, 0)
	compare(t, reg, `colonnade_endpoint_state{endpoint="gpu-1",pool="p",state="up"} 1`)
}

// Each pair of an endpoint and what it lacks has a series while it lasts, up to a bound; the words of endpoints come first.
func TestLacksOfEachEndpoint(t *testing.T) {
	reg := prometheus.NewRegistry()
	said := permits.LackStats{URL: "http://gpu-1up", Model: "sql", AgainSeconds: new(0.5)}
	pools := []permits.Stats{
		{Pool: "o", Endpoints: []permits.EndpointStats{endpointStats("gpu-2", "up", 8, 3)}},
		{Pool: "p", Endpoints: []permits.EndpointStats{endpointStats("gpu-1", "up", 8, 3)}, Lacks: []permits.LackStats{said, {URL: "http://gpu-1up", Path: "/v1/rerank"}}},
	}
	metrics.NewColo(reg, emptyTable, func() []permits.Stats { return pools }, 0)
	const sql = `colonnade_endpoint_lacks{endpoint="gpu-1",model="sql",path="",pool="p"} 1`
	compare(t, reg, sql+`
		colonnade_endpoint_lacks{endpoint="gpu-1",model="",path="/v1/rerank",pool="p"} 1`)
	for i := range 2000 {
		pools[0].Lacks = append(pools[0].Lacks, permits.LackStats{URL: "http://gpu-2up", Model: fmt.Sprint("m", i)})
	}
	compare(t, reg, sql)
	if n, err := testutil.GatherAndCount(reg, "colonnade_endpoint_lacks"); err != nil || n != 1000 {
		t.Errorf("%d series, %v, want 1000", n, err)
	}
	pools[0].Lacks, pools[1].Lacks = nil, nil
	if got := scrape(t, reg); strings.Contains(got, "colonnade_endpoint_lacks{") {
		t.Errorf("nothing is missing any more, but\n%s", got)
	}
}
