package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"colonnade/permits"
)

// engineMetrics are those that engines have about themselves, under the same names whatever the engine is. There is a series only of what an
// engine says.
type engineMetrics struct {
	running, waiting, beside, kvCache, hits, queried, found, age *prometheus.Desc
}

func newEngineMetrics() engineMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return newDesc("inference_engine_"+name, help, "pool", "endpoint")
	}
	return engineMetrics{
		running: desc("requests_running", "Requests that the engine works on, also those of other clients, by its own metrics."),
		waiting: desc("requests_waiting", "Requests that the engine has not begun, by its own metrics."),
		beside:  desc("requests_beside", "Requests that the engine has beside those of this colo: balance by least_loaded counts them."),
		kvCache: desc("kv_cache_usage_ratio", "Share of the engine's KV cache that is in use, from 0 to 1, by its own metrics; of several ranks, that of the fullest."),
		hits:    desc("prefix_cache_hit_ratio", "Share of the tokens of prompts that the engine has found in its prefix cache of late, from 0 to 1, by its own metrics."),
		queried: desc("prefix_cache_queried_tokens_total", "Tokens of prompts that the engine has looked for in its prefix cache, by its own metrics."),
		found:   desc("prefix_cache_hit_tokens_total", "Tokens of prompts that the engine has found in its prefix cache, by its own metrics."),
		age:     desc("metrics_age_seconds", "Seconds since the engine's own metrics were read; no series if they are not, or were read too long ago."),
	}
}

func (m *engineMetrics) describe() []*prometheus.Desc {
	return []*prometheus.Desc{m.running, m.waiting, m.beside, m.kvCache, m.hits, m.queried, m.found, m.age}
}

func (m *engineMetrics) collect(out chan<- prometheus.Metric, k endpointKey, e *permits.EngineStats) {
	if e == nil {
		return
	}
	number := func(d *prometheus.Desc, n *int) {
		if n != nil {
			out <- gauge(d, float64(*n), k.pool, k.endpoint)
		}
	}
	number(m.running, e.Running)
	number(m.waiting, e.Waiting)
	number(m.beside, e.Beside)
	for _, v := range [...]struct {
		desc *prometheus.Desc
		of   func(*prometheus.Desc, float64, ...string) prometheus.Metric
		n    *float64
	}{
		{m.kvCache, gauge, e.KVCache}, {m.hits, gauge, e.PrefixHits}, {m.age, gauge, e.AgeSeconds},
		{m.queried, counter, e.PrefixQueried}, {m.found, counter, e.PrefixFound},
	} {
		if v.n != nil {
			out <- v.of(v.desc, *v.n, k.pool, k.endpoint)
		}
	}
}
