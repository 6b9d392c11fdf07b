package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"colonnade/permits"
)

// cacheMetrics are those of the prefix caches of engines, as far as the choice of endpoints knows them. There is a series only of what is known.
type cacheMetrics struct {
	indexed, room, losses             *prometheus.Desc
	connected, events, gaps, resident *prometheus.Desc
}

func newCacheMetrics() cacheMetrics {
	desc := func(name, help string) *prometheus.Desc { return newDesc(name, help, "pool", "endpoint") }
	return cacheMetrics{
		indexed: desc("colonnade_endpoint_indexed_bytes", "Bytes of prompts that the index of the pool takes to be in the engine's prefix cache."),
		room: desc("colonnade_endpoint_prefix_cache_bytes",
			"Bytes of prompts that the engine's prefix cache has room for, by its metrics and events; the index forgets what is beyond."),
		losses: desc("colonnade_endpoint_prefix_cache_losses_total",
			"Times that the engine's prefix cache was lost, since the engine has begun anew or has emptied it; the index forgets all that was sent there."),
		connected: desc("inference_engine_kv_events_connected", "1 while the events of the engine's KV cache are read, 0 while they cannot be; no series if they are not to be read."),
		events:    desc("inference_engine_kv_events_total", "Events of the engine's KV cache that were read."),
		gaps:      desc("inference_engine_kv_events_gaps_total", "Times that events of the engine's KV cache were lost or not understood."),
		resident:  desc("inference_engine_kv_cache_resident_tokens", "Tokens that are in the engine's KV cache, by its events; no series while that is not known."),
	}
}

func (m *cacheMetrics) describe() []*prometheus.Desc {
	return []*prometheus.Desc{m.indexed, m.room, m.losses, m.connected, m.events, m.gaps, m.resident}
}

func (m *cacheMetrics) collect(out chan<- prometheus.Metric, k endpointKey, e *permits.EndpointStats) {
	if e.Indexed > 0 || e.Cache != nil {
		out <- gauge(m.indexed, float64(e.Indexed), k.pool, k.endpoint)
	}
	c := e.Cache
	if c == nil {
		return
	}
	out <- counter(m.losses, float64(c.Losses), k.pool, k.endpoint)
	if c.SizeBytes != nil {
		out <- gauge(m.room, float64(*c.SizeBytes), k.pool, k.endpoint)
	}
	if s := c.Events; s != nil {
		out <- gauge(m.connected, oneIf(s.Connected), k.pool, k.endpoint)
		out <- counter(m.events, float64(s.Events), k.pool, k.endpoint)
		out <- counter(m.gaps, float64(s.Gaps), k.pool, k.endpoint)
		if s.ResidentTokens != nil {
			out <- gauge(m.resident, float64(*s.ResidentTokens), k.pool, k.endpoint)
		}
	}
}
