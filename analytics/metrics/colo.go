package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// PoolState is one pool of a colo server as it stands.
type PoolState struct {
	Pool                string
	Limit, Held, Queued int
	Active              int               // requests in hand, waiting or running
	FullSeconds         float64           // how long the pool had no free slot, since the node started
	Endpoints           map[string]int    // state → how many
	Refused             map[string]uint64 // reason → how many, since the node started
}

// ColoMetrics are the metrics of a colo server.
type Colo struct {
	requestMetrics
	queueWait *prometheus.HistogramVec
	retries   *prometheus.CounterVec
}

// NewColoMetrics registers a colo server's metrics. pools is called at each scrape.
func NewColo(reg prometheus.Registerer, pools func() []PoolState) *Colo {
	m := &Colo{
		requestMetrics: newRequestMetrics(reg),
		queueWait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "colonnade_queue_wait_seconds", Help: "Time from arrival at the pool to the permit.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16), // 1 ms to 33 s
		}, []string{"pool"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_retries_total", Help: "Attempts at another endpoint after one failed.",
		}, []string{"pool"}),
	}
	reg.MustRegister(m.queueWait, m.retries, newPoolCollector(pools))
	return m
}

// RegisterGrants registers whether a colo server may grant permits. may is called at each scrape.
func RegisterGrants(reg prometheus.Registerer, may func() bool) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "colonnade_may_grant", Help: "1 while this server may grant permits; 0 while requests wait until its place in etcd is certain again.",
	}, func() float64 {
		if may() {
			return 1
		}
		return 0
	}))
}

// QueueWait observes how long a request waited for its permit.
func (m *Colo) QueueWait(pool string, d time.Duration) {
	m.queueWait.WithLabelValues(pool).Observe(d.Seconds())
}

// Retried counts an attempt after the first.
func (m *Colo) Retried(pool string) { m.retries.WithLabelValues(pool).Inc() }

func newPoolCollector(pools func() []PoolState) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"pool"}, labels...), nil)
	}
	limit := desc("colonnade_permits", "Permits that a pool can grant at once.")
	held := desc("colonnade_permits_held", "Permits held now.")
	queued := desc("inference_queue_length", "Requests waiting for a permit.")
	active := desc("inference_active_requests", "Requests in hand, waiting or running.")
	ratio := desc("colonnade_pool_full_ratio", "Share of the time since the last scrape in which no slot was free.")
	full := desc("colonnade_pool_full_seconds_total", "Time in which no slot was free.")
	refused := desc("colonnade_refusals_total", "Requests refused a permit.", "reason")
	endpoints := desc("colonnade_endpoints", "Endpoints by state.", "state")
	ratios := &fullRatios{last: map[string]fullSample{}}
	return stateCollector{
		descs: []*prometheus.Desc{limit, held, queued, active, ratio, full, refused, endpoints},
		collect: func(out chan<- prometheus.Metric) {
			states := pools()
			shares := ratios.update(states, time.Now())
			for i, p := range states {
				out <- gauge(limit, float64(p.Limit), p.Pool)
				out <- gauge(held, float64(p.Held), p.Pool)
				out <- gauge(queued, float64(p.Queued), p.Pool)
				out <- gauge(active, float64(p.Active), p.Pool)
				out <- gauge(ratio, shares[i], p.Pool)
				out <- counter(full, p.FullSeconds, p.Pool)
				for reason, n := range p.Refused {
					out <- counter(refused, float64(n), p.Pool, reason)
				}
				for state, n := range p.Endpoints {
					out <- gauge(endpoints, float64(n), p.Pool, state)
				}
			}
		},
	}
}

// fullRatios turns accumulated time into a share of the time between two scrapes.
type fullRatios struct {
	mu   sync.Mutex // guards the fields below
	last map[string]fullSample
}

type fullSample struct {
	at    time.Time
	full  float64 // seconds
	ratio float64
}

// leastWindow keeps the ratio meaningful when several scrapers come at once.
const leastWindow = time.Second

func (r *fullRatios) update(states []PoolState, now time.Time) []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := make(map[string]fullSample, len(states))
	ratios := make([]float64, len(states))
	for i, p := range states {
		s, known := r.last[p.Pool]
		elapsed := now.Sub(s.at)
		switch {
		case !known || p.FullSeconds < s.full: // new, or begun anew under its old name
			s = fullSample{at: now, full: p.FullSeconds}
		case elapsed >= leastWindow:
			s = fullSample{at: now, full: p.FullSeconds, ratio: min((p.FullSeconds-s.full)/elapsed.Seconds(), 1)}
		}
		next[p.Pool] = s
		ratios[i] = s.ratio
	}
	r.last = next
	return ratios
}
