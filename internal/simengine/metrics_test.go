package simengine_test

import (
	"strings"
	"testing"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// Each kind has its figures under its own names, if it has such a page.
func TestMetricsOfEachKind(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"":         `vllm:num_requests_running{model_name="m"} 1`,
		"vllm":     `vllm:prefix_cache_queries_total{model_name="m"} 6`,
		"sglang":   `sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 1`,
		"tgi":      "tgi_batch_current_size 1",
		"tei":      "te_queue_size 0",
		"llamacpp": "llamacpp:requests_deferred 1",
		"triton":   `nv_trt_llm_request_metrics{model="m",version="1",request_type="scheduled"} 1`,
		"ollama":   "", "openai": "",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e, addr := start(t, simengine.Config{Kind: kind, Models: []string{"m"}, Slots: 1, Cached: 1})
			if kind != "tei" { // which has no path for chats
				e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead})
				for range 2 {
					dial(t, addr).post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"one two three"}]}`)
				}
				waitForStats(t, e, "one runs and one waits", func(st simengine.Stats) bool { return st.Running == 1 && st.Waiting == 1 })
			}
			status, page := testkit.Get("http://" + addr + "/metrics")
			if want == "" {
				if status != 404 {
					t.Errorf("%d %s", status, page)
				}
				return
			}
			if status != 200 || !strings.Contains(page, "\n"+want+"\n") {
				t.Errorf("%d %s\nwant %s", status, page, want)
			}
		})
	}
}

// The faults of the page of metrics are for it alone.
func TestFaultsOfMetrics(t *testing.T) {
	t.Parallel()
	e, addr := start(t, simengine.Config{Models: []string{"m"}, TTFT: -1, ITL: -1})
	get := func() (int, string) { return testkit.Get("http://" + addr + "/metrics") }
	e.SetFault(simengine.Fault{Fault: simengine.FaultMetricsMissing, Count: 1})
	if status, _ := get(); status != 404 {
		t.Errorf("missing: %d", status)
	}
	e.SetFault(simengine.Fault{Fault: simengine.FaultMetricsGarbage})
	if status, page := get(); status != 200 || !strings.Contains(page, "NaN") {
		t.Errorf("garbage: %d %.100s", status, page)
	}
	if got := readAll(t, post(t, addr, "/v1/chat/completions", `{"model":"m","messages":[]}`)); !strings.Contains(got, "chat.completion") {
		t.Errorf("a chat gets %s", got)
	}
	e.ClearFaults()
	e.SetFault(simengine.Fault{Fault: simengine.FaultMetricsHuge, Count: 1})
	if _, page := get(); len(page) < 1<<20 {
		t.Errorf("huge: %d bytes", len(page))
	}
	if status, page := get(); status != 200 || !strings.Contains(page, "vllm:num_requests_running") {
		t.Errorf("without a fault: %d %s", status, page)
	}
}
