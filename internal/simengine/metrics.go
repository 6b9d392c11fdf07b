package simengine

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// hasMetrics reports whether engines of a kind have the page /metrics.
func hasMetrics(kind string) bool { return kind != "ollama" && kind != "openai" }

// metrics answers with the engine's figures, under the names of its kind.
func (e *Engine) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	switch e.faults.takeMetrics() {
	case FaultMetricsMissing:
		http.NotFound(w, r)
	case FaultMetricsSlow:
		select {
		case <-r.Context().Done():
		case <-e.ctx.Done():
		}
	case FaultMetricsHuge:
		line := bytes.Repeat([]byte("vllm:iteration_tokens_total_bucket{le=\"1\"} 1\n"), 1024)
		for size := 0; size < 64<<20; size += len(line) {
			if _, err := w.Write(line); err != nil {
				return // the client has left
			}
		}
	case FaultMetricsGarbage:
		garbage := []byte("{\x00}\xff} vllm:num_requests_running{=\"\n\nvllm:num_requests_waiting -3\nsglang:token_usage NaN\n")
		_, _ = w.Write(bytes.Repeat(garbage, 100))
	default:
		_, _ = w.Write(e.metricsPage()) // fails if the client has left
	}
}

// page collects lines of metrics.
type metricsPage struct {
	bytes.Buffer
	labels string // of each series; "" or name="value",…
}

// put writes a metric with one series. more are further labels, or "".
func (p *metricsPage) put(name, kind, more string, v any) {
	fmt.Fprintf(p, "# TYPE %s %s\n%s", name, kind, name)
	if labels := strings.Trim(p.labels+","+more, ","); labels != "" {
		fmt.Fprintf(p, "{%s}", labels)
	}
	fmt.Fprintf(p, " %v\n", v)
}

func (p *metricsPage) gauge(name string, v any)   { p.put(name, "gauge", "", v) }
func (p *metricsPage) counter(name string, v any) { p.put(name, "counter", "", v) }

// metricsPage is the page of an engine of the kind; that of vLLM for an engine of no kind. The names are those in the sources that
// package discovery/engines/figures lists.
func (e *Engine) metricsPage() []byte {
	st, model := e.Stats(), escapeLabel(e.names()[0])
	full := e.prefix.usage(float64(st.Running) / float64(e.c.Slots))
	p := &metricsPage{labels: `model_name="` + model + `"`}
	switch e.c.Kind {
	case "sglang":
		p.labels = `engine_type="unified",model_name="` + model + `",pp_rank="0",tp_rank="0"`
		p.gauge("sglang:num_running_reqs", st.Running)
		p.gauge("sglang:num_queue_reqs", st.Waiting)
		p.gauge("sglang:token_usage", full)
		if e.prefix != nil {
			p.gauge("sglang:max_total_num_tokens", e.c.CacheBlocks*e.c.BlockTokens)
		}
		p.counter("sglang:prompt_tokens_total", e.prompted.Load())
		p.counter("sglang:cached_tokens_total", e.cached.Load())
	case "tgi":
		p.labels = ""
		p.gauge("tgi_batch_current_size", st.Running)
		p.gauge("tgi_queue_size", st.Waiting)
		p.counter("tgi_request_count", st.Requests)
	case "tei":
		p.labels = ""
		p.gauge("te_queue_size", st.Waiting)
	case "llamacpp":
		p.labels = ""
		p.counter("llamacpp:tokens_predicted_total", st.Tokens)
		p.gauge("llamacpp:requests_processing", st.Running)
		p.gauge("llamacpp:requests_deferred", st.Waiting)
	case "triton":
		p.labels = `model="` + model + `",version="1"`
		p.gauge("nv_inference_pending_request_count", 0)
		p.put("nv_trt_llm_request_metrics", "gauge", `request_type="scheduled"`, st.Running)
		p.put("nv_trt_llm_request_metrics", "gauge", `request_type="waiting"`, st.Waiting)
		p.put("nv_trt_llm_kv_cache_block_metrics", "gauge", `kv_cache_block_type="fraction"`, full)
	default:
		e.vllmMetrics(p, &st, full)
	}
	return p.Bytes()
}

func (e *Engine) vllmMetrics(p *metricsPage, st *Stats, full float64) {
	p.gauge("vllm:num_requests_running", st.Running)
	p.gauge("vllm:num_requests_waiting", st.Waiting)
	p.gauge("vllm:kv_cache_usage_perc", full)
	p.counter("vllm:prefix_cache_queries_total", e.prompted.Load())
	p.counter("vllm:prefix_cache_hits_total", e.cached.Load())
	if e.prefix != nil {
		p.put("vllm:cache_config_info", "gauge", fmt.Sprintf(`block_size="%d",cache_dtype="auto",enable_prefix_caching="True",num_gpu_blocks="%d"`,
			e.c.BlockTokens, e.c.CacheBlocks), 1)
	}
	p.counter("vllm:generation_tokens_total", st.Tokens)
	p.put("vllm:request_success_total", "counter", `finished_reason="stop"`, st.Served)
	p.put("vllm:request_success_total", "counter", `finished_reason="abort"`, st.Aborted)
	if adapters := append(slices.Clone(e.loaded()), e.running()...); len(adapters) > 0 {
		p.labels = ""
		p.put("vllm:lora_requests_info", "gauge", fmt.Sprintf(`max_lora="%d",running_lora_adapters="%s",waiting_lora_adapters=""`,
			len(adapters), escapeLabel(strings.Join(adapters, ","))), float64(time.Now().UnixMilli())/1000)
	}
}

func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}
