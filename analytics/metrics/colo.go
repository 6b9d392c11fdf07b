package metrics

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/permits"
)

// Colo has the metrics of a colo server.
type Colo struct {
	requestMetrics
	tokens    *seriesSet[tokenSeries, prometheus.Counter]
	forwarded *prometheus.CounterVec
	pools     *namedSeries
	queueWait *prometheus.HistogramVec
	retries   *prometheus.CounterVec
	refused   *prometheus.CounterVec
	external  external
	endpoints *endpoints
	accounts  *accounts
}

// tokenSeries names a series of tokens.
type tokenSeries struct{ model, kind string }

// The kinds of refused hop tokens, in the label of their metric.
const (
	TokenInvalid   = "invalid"
	TokenReplayed  = "replayed"
	TokenSignAgain = "sign_again"
)

// NewColo registers a colo server's metrics, with those of at most so many single accounts. table and pools are called at each scrape.
func NewColo(reg Registerer, table func() *fleet.Table, pools func() []permits.Stats, maxAccounts int) *Colo {
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inference_tokens_total",
		Help: "Tokens by type: prompt, completion and cached as engines report them; estimated: deltas of answers without a report.",
	}, []string{"model", "type"})
	m := &Colo{
		endpoints: newEndpoints(),
		accounts:  newColoAccounts(reg, maxAccounts),
		forwarded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_forwarded_requests_total",
			Help: "Requests that this server has forwarded to another colo, since its own was out of capacity, by outcome. The colo where they end counts them as finished.",
		}, []string{"model", "outcome"}),
		queueWait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colonnade_queue_wait_seconds",
			Help:    "Seconds from a request's arrival at the pool to its permit, of requests that got one.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16), // 1 ms to 33 s
		}, []string{"pool"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_pool_retries_total",
			Help: "Further attempts at another endpoint of the pool after one failed.",
		}, []string{"pool"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_hop_tokens_refused_total",
			Help: "Requests on the listener for nodes refused for their hop token. invalid: not signed by the fleet for this request, or expired; " +
				"replayed: used before; sign_again: for an earlier process of this server, or overtaken by too many, which its sender signs again.",
		}, []string{"kind"}),
	}
	for _, kind := range []string{TokenInvalid, TokenReplayed, TokenSignAgain} {
		m.refused.WithLabelValues(kind) // 0 from the start, so that a rate sees the first
	}
	m.requestMetrics = newRequestMetrics(reg, table, tokens.MetricVec, m.forwarded.MetricVec)
	m.tokens = cached(m.series, func(s tokenSeries) string { return s.model }, func(s tokenSeries) prometheus.Counter {
		return tokens.WithLabelValues(s.model, s.kind)
	})
	m.pools = newNamedSeries("pool", func(name string) bool {
		_, ok := slices.BinarySearchFunc(table().Pools(), name, func(p *fleet.Pool, name string) int {
			return cmp.Compare(p.Name, name)
		})
		return ok
	}, m.queueWait.MetricVec, m.retries.MetricVec)
	m.external = newExternal(reg, table)
	reg.MustRegister(m.pools, m.refused, newPoolCollector(pools, m.endpoints))
	return m
}

// Finished counts a final event.
func (m *Colo) Finished(e *analytics.Event) {
	m.requestMetrics.Finished(e)
	model := modelLabel(e)
	eachTokenCount(e, func(kind string, n int) { m.tokens.of(tokenSeries{model, kind}).Add(float64(n)) })
	m.external.finished(e)
	m.endpoints.finished(e)
	m.accounts.finished(e)
}

// Forwarded counts the final event of a request that was forwarded to another colo.
func (m *Colo) Forwarded(e *analytics.Event) {
	model := modelLabel(e)
	m.series.use(model)
	m.forwarded.WithLabelValues(model, string(e.Outcome)).Inc()
}

// tokenKinds are the types of tokens.
var tokenKinds = [...]string{"prompt", "completion", "cached", "estimated"}

// eachTokenCount calls count with each type of tokens that an event has, and their number.
func eachTokenCount(e *analytics.Event, count func(kind string, n int)) {
	for i, n := range [len(tokenKinds)]int{e.PromptTokens, e.CompletionTokens, e.CachedTokens, e.TokensEstimated} {
		if n > 0 {
			count(tokenKinds[i], n)
		}
	}
}

// RegisterGrants registers whether a colo server may grant permits. enabled is called at each scrape.
func RegisterGrants(reg Registerer, enabled func() bool) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "colonnade_grants_enabled",
		Help: "1 while this server may grant permits; 0 while its lease in etcd is not confirmed and requests wait.",
	}, func() float64 {
		if enabled() {
			return 1
		}
		return 0
	}))
}

// TokenRefused counts a request that was refused for its hop token.
func (m *Colo) TokenRefused(kind string) { m.refused.WithLabelValues(kind).Inc() }

// QueueWait observes how long a request waited for its permit.
func (m *Colo) QueueWait(pool string, d time.Duration) {
	m.pools.use(pool)
	m.queueWait.WithLabelValues(pool).Observe(d.Seconds())
}

// Retried counts an attempt after the first.
func (m *Colo) Retried(pool string) {
	m.pools.use(pool)
	m.retries.WithLabelValues(pool).Inc()
}

func newPoolCollector(pools func() []permits.Stats, single *endpoints) prometheus.Collector {
	limit := newDesc("colonnade_permits", "Permits that the pool can grant at once: the slots of its usable endpoints that are neither draining nor withheld.", "pool")
	held := newDesc("colonnade_permits_held", "Permits held now: requests that an engine works on.", "pool")
	queued := newDesc("inference_queue_length", "Requests waiting for a permit.", "pool")
	full := newDesc("colonnade_pool_full_seconds_total", "Seconds in which the pool had no free slot.", "pool")
	refused := newDesc("colonnade_pool_refusals_total",
		"Requests that the pool gave no permit, by reason. An entry may then have tried another colo.", "pool", "reason")
	choices := newDesc("colonnade_endpoint_choices_total",
		"Permits by the policy that chose the endpoint, and the reason of the choice.", "pool", "policy", "reason")
	noSlot := newNoSlotMetrics()
	endpoints := newDesc("colonnade_endpoints",
		"Endpoints by state: up, down (the health check fails), silent (it hangs: neither the health check nor any request gets a byte), ejected (requests have failed, or connections were refused), draining (its document takes it out) or withheld (this server may not grant their slots).", "pool", "state")
	return stateCollector{
		descs: append(append(single.describe(), noSlot.describe()...), limit, held, queued, full, refused, choices, endpoints),
		collect: func(out chan<- prometheus.Metric) {
			all := pools()
			single.collect(out, all)
			for _, p := range all {
				out <- gauge(limit, float64(p.Limit), p.Pool)
				out <- gauge(held, float64(p.Held), p.Pool)
				out <- gauge(queued, float64(p.Queued), p.Pool)
				out <- counter(full, p.FullSeconds, p.Pool)
				for reason, n := range p.Refused {
					out <- counter(refused, float64(n), p.Pool, string(reason))
				}
				for policy, byReason := range p.Balance.Choices {
					for reason, n := range byReason {
						out <- counter(choices, float64(n), p.Pool, policy, reason)
					}
				}
				noSlot.collect(out, &p)
				states := map[string]int{}
				for _, e := range p.Endpoints {
					states[e.State]++
				}
				for state, n := range states {
					out <- gauge(endpoints, float64(n), p.Pool, state)
				}
			}
		},
	}
}
