package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"colonnade/permits"
)

// noSlotMetrics are those of requests that take no slot.
type noSlotMetrics struct{ running, total, refused *prometheus.Desc }

func newNoSlotMetrics() noSlotMetrics {
	return noSlotMetrics{
		running: newDesc("colonnade_no_slot_requests_running", "Requests that take no slot, such as those to /tokenize, that engines have now.", "pool"),
		total:   newDesc("colonnade_no_slot_requests_total", "Requests that take no slot which got a place at an engine.", "pool"),
		refused: newDesc("colonnade_no_slot_refusals_total",
			"Requests that take no slot which got no place, by reason: busy, all places are taken; account_limit, the account has its share of them. "+
				"An entry may then have tried another colo.", "pool", "reason"),
	}
}

func (m noSlotMetrics) describe() []*prometheus.Desc {
	return []*prometheus.Desc{m.running, m.total, m.refused}
}

// collect writes the series of one pool: zeros from the start, so that a rate sees the first request.
func (m noSlotMetrics) collect(out chan<- prometheus.Metric, p *permits.Stats) {
	now := p.NoSlot
	if now == nil {
		now = &permits.NoSlotStats{}
	}
	out <- gauge(m.running, float64(now.Held), p.Pool)
	out <- counter(m.total, float64(now.Granted), p.Pool)
	for reason, n := range now.Refused {
		out <- counter(m.refused, float64(n), p.Pool, string(reason))
	}
	for _, reason := range []permits.Reason{permits.Busy, permits.AccountLimit} {
		if _, counted := now.Refused[reason]; !counted {
			out <- counter(m.refused, 0, p.Pool, string(reason))
		}
	}
}
