package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/permits"
)

// compare checks the metrics named in want, without their HELP and TYPE lines.
func compare(t *testing.T, reg *prometheus.Registry, want string) {
	t.Helper()
	got := scrape(t, reg)
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(got, line+"\n") {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

func scrape(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("cannot scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func emptyTable() *fleet.Table { return document.NewSet().Table() }

func TestReasonsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := metrics.NewEntry(reg, emptyTable, func() []metrics.ModelState { return nil }, 0)
	for _, reason := range []string{"queue_full", "queue_full", "", "Hello, world", strings.Repeat("x", 100), "a\"b"} {
		m.Refused(reason)
	}
	compare(t, reg, `
		colonnade_refusals_total{reason="queue_full"} 2
		colonnade_refusals_total{reason="other"} 4`)
	for i := range 26 * 26 {
		m.Refused(string([]byte{'a' + byte(i/26), 'a' + byte(i%26)}))
	}
	m.Refused("queue_full")
	if n, err := testutil.GatherAndCount(reg, "colonnade_refusals_total"); err != nil || n != 65 {
		t.Errorf("%d series, %v", n, err)
	}
	compare(t, reg, `colonnade_refusals_total{reason="queue_full"} 3`)
}

func TestConnectionsAreReadWhenScraped(t *testing.T) {
	reg := prometheus.NewRegistry()
	now := metrics.ConnStats{Open: 1}
	metrics.RegisterConnections(reg, func() metrics.ConnStats { return now })
	now = metrics.ConnStats{Open: 5, RefusedPerIP: 7, RefusedGlobal: 2}
	compare(t, reg, `
		colonnade_connections 5
		colonnade_connections_refused_total{reason="address"} 7
		colonnade_connections_refused_total{reason="total"} 2`)
}

func TestLinksAreReadWhenScraped(t *testing.T) {
	reg := prometheus.NewRegistry()
	now := metrics.LinkStats{Links: 1}
	metrics.RegisterLinks(reg, "in", func() metrics.LinkStats { return now })
	metrics.RegisterLinks(reg, "out", func() metrics.LinkStats { return metrics.LinkStats{} })
	now = metrics.LinkStats{Links: 2, Streams: 300}
	compare(t, reg, `
		colonnade_links{direction="in"} 2
		colonnade_link_streams{direction="in"} 300
		colonnade_links{direction="out"} 0`)
}

func TestColoStateIsReadWhenScraped(t *testing.T) {
	reg := prometheus.NewRegistry()
	endpoint := func(state string) permits.EndpointStats {
		return permits.EndpointStats{Health: permits.Health{State: state}}
	}
	state := permits.Stats{
		Pool: "p", Limit: 8, Held: 3, Queued: 0, FullSeconds: 1.5, Refused: map[permits.Reason]uint64{permits.QueueFull: 7},
		Endpoints: []permits.EndpointStats{endpoint("up"), endpoint("ejected"), endpoint("up")},
		Balance:   permits.BalanceStats{Policy: "round_robin", Choices: map[string]map[string]uint64{"round_robin": {"turn": 5}, "least_loaded": {"load": 2, "only": 1}}},
	}
	metrics.NewColo(reg, emptyTable, func() []permits.Stats { return []permits.Stats{state} }, 0)
	compare(t, reg, `
		colonnade_permits{pool="p"} 8
		colonnade_permits_held{pool="p"} 3
		inference_queue_length{pool="p"} 0
		colonnade_pool_full_seconds_total{pool="p"} 1.5
		colonnade_pool_refusals_total{pool="p",reason="queue_full"} 7
		colonnade_endpoint_choices_total{policy="round_robin",pool="p",reason="turn"} 5
		colonnade_endpoint_choices_total{policy="least_loaded",pool="p",reason="load"} 2
		colonnade_endpoint_choices_total{policy="least_loaded",pool="p",reason="only"} 1
		colonnade_no_slot_requests_running{pool="p"} 0
		colonnade_no_slot_requests_total{pool="p"} 0
		colonnade_no_slot_refusals_total{pool="p",reason="account_limit"} 0
		colonnade_no_slot_refusals_total{pool="p",reason="busy"} 0
		colonnade_endpoints{pool="p",state="ejected"} 1
		colonnade_endpoints{pool="p",state="up"} 2`)
	state.Held, state.Queued = 8, 5
	state.NoSlot = &permits.NoSlotStats{Held: 2, Granted: 9, Refused: map[permits.Reason]uint64{permits.AccountLimit: 4}}
	compare(t, reg, `
		colonnade_no_slot_requests_running{pool="p"} 2
		colonnade_no_slot_requests_total{pool="p"} 9
		colonnade_no_slot_refusals_total{pool="p",reason="account_limit"} 4
		colonnade_no_slot_refusals_total{pool="p",reason="busy"} 0
		colonnade_permits_held{pool="p"} 8
		inference_queue_length{pool="p"} 5`)
}

func TestColoEvents(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := metrics.NewColo(reg, emptyTable, func() []permits.Stats { return nil }, 0)
	m.Finished(&analytics.Event{
		Model: "m", Pool: "p", Outcome: analytics.OutcomeCompleted,
		RequestTime: analytics.Milliseconds(2 * time.Second), TimeToFirstToken: analytics.Milliseconds(time.Second),
		PromptTokens: 10, CompletionTokens: 20, CachedTokens: 5, TokensEstimated: 0,
	})
	m.Finished(&analytics.Event{Model: "m", Pool: "p", Outcome: analytics.OutcomeClientGone, TokensEstimated: 3})
	m.Finished(&analytics.Event{Model: "m", Pool: "p", Outcome: analytics.OutcomeRefused})
	m.QueueWait("p", 250*time.Millisecond)
	m.Retried("p")
	compare(t, reg, `
		inference_requests_total{model="m",outcome="completed"} 1
		inference_requests_total{model="m",outcome="client_gone"} 1
		inference_requests_total{model="m",outcome="refused"} 1
		inference_request_duration_seconds_sum{model="m"} 2
		inference_request_duration_seconds_count{model="m"} 2
		inference_time_to_first_token_seconds_sum{model="m"} 1
		inference_time_to_first_token_seconds_count{model="m"} 1
		inference_tokens_total{model="m",type="prompt"} 10
		inference_tokens_total{model="m",type="completion"} 20
		inference_tokens_total{model="m",type="cached"} 5
		inference_tokens_total{model="m",type="estimated"} 3
		colonnade_queue_wait_seconds_sum{pool="p"} 0.25
		colonnade_pool_retries_total{pool="p"} 1`)
}

func TestEntryMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := metrics.NewEntry(reg, emptyTable, func() []metrics.ModelState {
		return []metrics.ModelState{{Model: "m", Active: 2}}
	}, 0)
	m.Finished(&analytics.Event{Model: "m", Pool: "p", Account: "acme", Outcome: analytics.OutcomeCompleted})
	m.Finished(&analytics.Event{Model: "whatever-a-client-sent", Account: "acme", Outcome: analytics.OutcomeRefused})
	m.ForwardFailure("ams")
	m.Retried()
	m.Refused("rate_limited")
	compare(t, reg, `
		inference_active_requests{model="m"} 2
		inference_requests_total{model="m",outcome="completed"} 1
		inference_requests_total{model="unknown",outcome="refused"} 1
		colonnade_forward_failures_total{colo="ams"} 1
		colonnade_retries_total 1
		colonnade_refusals_total{reason="rate_limited"} 1`)
	if text := scrape(t, reg); strings.Contains(text, "whatever") || strings.Contains(text, "acme") {
		t.Errorf("a client's text or an account became a label:\n%s", text)
	}
}

func TestNodeMetrics(t *testing.T) {
	reg := metrics.NewRegistry()
	config := metrics.ConfigState{Revision: 41, Age: 1500 * time.Millisecond, Tables: 7, Rejected: 2, Conflicts: 3, PendingDeletions: 11, ExpiredLeases: 4}
	metrics.RegisterConfig(reg, func() metrics.ConfigState { return config })
	l, err := journal.Open(journal.Config{Dir: t.TempDir(), Node: "ams-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	metrics.RegisterEvents(reg, l.Stats)
	l.Append(&analytics.Event{EventID: "e", Kind: analytics.KindInference, Phase: analytics.PhaseBegin})
	compare(t, reg, `
		colonnade_config_revision 41
		colonnade_config_age_seconds 1.5
		colonnade_config_tables_total 7
		colonnade_config_rejected 2
		colonnade_config_conflicts 3
		colonnade_config_deletions_pending 11
		colonnade_config_expired_lease_documents 4
		colonnade_events_appended_total 1
		colonnade_events_open 1
		colonnade_events_dropped_total{segment="billing"} 0
		colonnade_events_dropped_total{segment="refusals"} 0
		colonnade_events_errors_total 0`)
	if !strings.Contains(scrape(t, reg), "go_goroutines ") {
		t.Error("no metrics of the runtime")
	}
}

// Requests and tokens of endpoints that others operate are counted by endpoint, and those of other endpoints are not.
func TestExternalRequestsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := metrics.NewColo(reg, emptyTable, func() []permits.Stats { return nil }, 0)
	own := &analytics.Event{Model: "m", Pool: "p", ColoID: "ams", Endpoint: "gpu-1", Outcome: analytics.OutcomeCompleted, PromptTokens: 7}
	external := &analytics.Event{Model: "m", Pool: "p", ColoID: "cloud", Endpoint: "api", Outcome: analytics.OutcomeCompleted, ExternalEndpoint: true, PromptTokens: 10, CompletionTokens: 5}
	failed := *external
	failed.Outcome, failed.PromptTokens, failed.CompletionTokens, failed.TokensEstimated = analytics.OutcomeEngineError, 0, 0, 3
	for _, e := range []*analytics.Event{own, external, external, &failed} {
		m.Finished(e)
	}
	compare(t, reg, `
		colonnade_external_requests_total{colo="cloud",endpoint="api",outcome="completed"} 2
		colonnade_external_requests_total{colo="cloud",endpoint="api",outcome="engine_error"} 1
		colonnade_external_tokens_total{colo="cloud",endpoint="api",type="prompt"} 20
		colonnade_external_tokens_total{colo="cloud",endpoint="api",type="completion"} 10
		colonnade_external_tokens_total{colo="cloud",endpoint="api",type="estimated"} 3`)
	if n, err := testutil.GatherAndCount(reg, "colonnade_external_requests_total"); err != nil || n != 2 {
		t.Errorf("%d series, %v", n, err)
	}
}
