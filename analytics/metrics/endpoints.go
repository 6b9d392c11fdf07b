package metrics

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics"
	"colonnade/permits"
	"colonnade/reasons"
)

// endpointStaleAfter is how long the counters of an endpoint stay after its document has gone, so that scrapers see the final counts.
const endpointStaleAfter = 5 * time.Minute

// endpointStates are the states that each endpoint has a series of. A state that is not in the list gets one while it lasts.
var endpointStates = [...]string{"up", "silent", "down", "ejected", "draining", "withheld"}

// goneState is that of an endpoint without a document, on which permits are held.
const goneState = "gone"

// failuresFromStart are the reasons whose counters begin at 0, so that a rate sees the first failure.
var failuresFromStart = [...]string{
	reasons.ConnectFailed, reasons.NoAnswer, reasons.EngineStatus, reasons.EndpointMisconfigured,
	reasons.FirstByteTimeout, reasons.IdleTimeout, reasons.TotalTimeout, reasons.Truncated,
}

// endpointKey names an endpoint of a colo server. One that moves to another pool begins anew.
type endpointKey struct{ pool, endpoint string }

// endpointSeries are the series of one endpoint that requests write.
type endpointSeries struct {
	ttft     prometheus.Observer
	failures *prometheus.CounterVec // by reason
}

// endpoints has the metrics of single endpoints: what requests have shown, and the state that is read when scraped.
type endpoints struct {
	series   *seriesSet[endpointKey, endpointSeries]
	ttft     *prometheus.HistogramVec
	failures *prometheus.CounterVec
	reasons  reasonSet

	state, slots, held, lacks *prometheus.Desc
	engine                    engineMetrics
	cache                     cacheMetrics
}

func newEndpoints() *endpoints {
	names := []string{"pool", "endpoint"}
	m := &endpoints{
		engine: newEngineMetrics(),
		cache:  newCacheMetrics(),
		ttft: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colonnade_endpoint_time_to_first_token_seconds",
			Help:    "Seconds from a request's permit to the first byte of the endpoint's answer: without the time in the queue.",
			Buckets: []float64{0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, names),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_endpoint_failures_total",
			Help: "Attempts at the endpoint that ended as engine_error or timeout, by reason.",
		}, append(names, "reason")),
		state: newDesc("colonnade_endpoint_state",
			"1 for the state that the endpoint is in, 0 for all others: up, down (the health check fails), "+
				"silent (it hangs: neither the health check nor any request gets a byte), ejected (requests have failed, or connections were refused), draining (its document takes it out) or withheld (this server may not grant its slots).",
			append(names, "state")...),
		slots: newDesc("colonnade_endpoint_slots", "Slots of the endpoint: the limit in force, which auto concurrency moves.", names...),
		lacks: newDesc("colonnade_endpoint_lacks",
			"1 for a model, or a path of the API, that the endpoint does not have, so that requests for it go elsewhere: by its own words, its list of models or "+
				"its document. At most 1000 series, by the endpoints' own words first.", "pool", "endpoint", "model", "path"),
		held: newDesc("colonnade_endpoint_slots_held", "Slots of the endpoint that requests of this server hold now.", names...),
	}
	m.series = newSeriesSet(m.create, func(k endpointKey) {
		labels := prometheus.Labels{"pool": k.pool, "endpoint": k.endpoint}
		m.ttft.DeletePartialMatch(labels)
		m.failures.DeletePartialMatch(labels)
	})
	return m
}

func (m *endpoints) create(k endpointKey) endpointSeries {
	k = endpointKey{strings.Clone(k.pool), strings.Clone(k.endpoint)}
	s := endpointSeries{
		ttft:     m.ttft.WithLabelValues(k.pool, k.endpoint),
		failures: m.failures.MustCurryWith(prometheus.Labels{"pool": k.pool, "endpoint": k.endpoint}),
	}
	for _, reason := range failuresFromStart {
		s.failures.WithLabelValues(reason)
	}
	return s
}

// finished counts the final event of an attempt.
func (m *endpoints) finished(e *analytics.Event) {
	if e.Endpoint == "" {
		return
	}
	s := m.series.of(endpointKey{e.Pool, e.Endpoint})
	if e.TimeToFirstToken > 0 {
		queued := e.RequestTime - e.InferenceTime
		s.ttft.Observe(max(0, (e.TimeToFirstToken - queued).Std().Seconds()))
	}
	if e.Outcome == analytics.OutcomeEngineError || e.Outcome == analytics.OutcomeTimeout {
		s.failures.WithLabelValues(m.reasons.bounded(cmp.Or(e.Reason, string(e.Outcome)))).Inc()
	}
}

func (m *endpoints) describe() []*prometheus.Desc {
	descs := make(chan *prometheus.Desc, 8)
	m.ttft.Describe(descs)
	m.failures.Describe(descs)
	close(descs)
	all := append([]*prometheus.Desc{m.state, m.slots, m.held, m.lacks}, append(m.engine.describe(), m.cache.describe()...)...)
	for d := range descs {
		all = append(all, d)
	}
	return all
}

// collect writes the state of all endpoints with a document, and what requests have shown.
func (m *endpoints) collect(out chan<- prometheus.Metric, pools []permits.Stats) {
	named := map[endpointKey]bool{}
	for _, p := range pools {
		for _, e := range p.Endpoints {
			key := endpointKey{p.Pool, e.ID}
			if e.ID == "" || e.State == goneState || named[key] {
				continue
			}
			named[key] = true
			m.collectState(out, key, &e)
			m.engine.collect(out, key, e.Engine)
			m.cache.collect(out, key, &e)
			if _, found := (*m.series.all.Load())[key]; !found {
				m.series.add(key, 0) // so that its counters begin at 0
			}
		}
	}
	m.collectLacks(out, pools)
	m.series.prune(time.Now(), endpointStaleAfter, func(k endpointKey) bool { return named[k] })
	m.ttft.Collect(out)
	m.failures.Collect(out)
}

// maxLackSeries bounds the series of what endpoints lack: a colo may have many endpoints and adapters.
const maxLackSeries = 1000

// collectLacks writes what endpoints lack, first what they have said so themselves.
func (m *endpoints) collectLacks(out chan<- prometheus.Metric, pools []permits.Stats) {
	written := 0
	for _, said := range []bool{true, false} {
		for _, p := range pools {
			ids := map[string]string{}
			for _, e := range p.Endpoints {
				if len(p.Lacks) > 0 && e.State != goneState {
					ids[e.URL] = e.ID
				}
			}
			for _, l := range p.Lacks {
				if id := ids[l.URL]; id != "" && said == (l.AgainSeconds != nil) && written < maxLackSeries {
					written++
					out <- gauge(m.lacks, 1, p.Pool, id, l.Model, l.Path)
				}
			}
		}
	}
}

func (m *endpoints) collectState(out chan<- prometheus.Metric, k endpointKey, e *permits.EndpointStats) {
	known := false
	for _, state := range endpointStates {
		known = known || e.State == state
		out <- gauge(m.state, oneIf(e.State == state), k.pool, k.endpoint, state)
	}
	if !known {
		out <- gauge(m.state, 1, k.pool, k.endpoint, e.State)
	}
	out <- gauge(m.slots, float64(e.Concurrency), k.pool, k.endpoint)
	out <- gauge(m.held, float64(e.Held), k.pool, k.endpoint)
}
