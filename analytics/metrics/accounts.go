package metrics

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics"
)

const (
	// otherAccounts is the label of accounts without series of their own.
	otherAccounts = "other"
	// accountStaleAfter is how long an account has had no request when its series go and its place becomes free.
	accountStaleAfter = 24 * time.Hour
)

// accountSeries are the series of one account: those of its node, and nil for the other kind of nodes.
type accountSeries struct {
	requests map[analytics.Outcome]prometheus.Counter
	tokens   map[string]prometheus.Counter
	refusals *prometheus.CounterVec // by reason
	cost     *prometheus.CounterVec // by unit
}

// accounts has the metrics of the accounts that came first, up to a limit, and of all others together. A nil one counts nothing.
type accounts struct {
	limit   int
	series  *seriesSet[string, accountSeries]
	vecs    []*prometheus.MetricVec
	reasons reasonSet
}

// newEntryAccounts registers what an entry knows of accounts, of at most limit; 0 = nothing.
func newEntryAccounts(reg Registerer, limit int) *accounts {
	if limit <= 0 {
		return nil
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colonnade_account_requests_total",
		Help: "Finished client requests of an account by outcome. With -metrics-accounts.",
	}, []string{"account", "outcome"})
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colonnade_account_refusals_total",
		Help: "Refused client requests of an account by reason. With -metrics-accounts.",
	}, []string{"account", "reason"})
	m := &accounts{limit: limit, vecs: []*prometheus.MetricVec{requests.MetricVec, refusals.MetricVec}}
	m.register(reg, func(account string) accountSeries {
		s := accountSeries{
			requests: map[analytics.Outcome]prometheus.Counter{},
			refusals: refusals.MustCurryWith(prometheus.Labels{"account": account}),
		}
		for _, outcome := range [...]analytics.Outcome{
			analytics.OutcomeCompleted, analytics.OutcomeClientGone, analytics.OutcomeEngineError, analytics.OutcomeTimeout,
			analytics.OutcomeRefused, analytics.OutcomeDrained, analytics.OutcomeCrashed,
		} {
			s.requests[outcome] = requests.WithLabelValues(account, string(outcome))
		}
		return s
	})
	return m
}

// newColoAccounts registers what a colo server knows of accounts, of at most limit; 0 = nothing.
func newColoAccounts(reg Registerer, limit int) *accounts {
	if limit <= 0 {
		return nil
	}
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colonnade_account_tokens_total",
		Help: "Tokens of an account, by type as in inference_tokens_total. With -metrics-accounts.",
	}, []string{"account", "type"})
	cost := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colonnade_account_cost_total",
		Help: "Cost of an account's requests, in the units of the models' documents. With -metrics-accounts.",
	}, []string{"account", "unit"})
	m := &accounts{limit: limit, vecs: []*prometheus.MetricVec{tokens.MetricVec, cost.MetricVec}}
	m.register(reg, func(account string) accountSeries {
		s := accountSeries{tokens: map[string]prometheus.Counter{}, cost: cost.MustCurryWith(prometheus.Labels{"account": account})}
		for _, kind := range tokenKinds {
			s.tokens[kind] = tokens.WithLabelValues(account, kind)
		}
		return s
	})
	return m
}

func (m *accounts) register(reg Registerer, create func(account string) accountSeries) {
	m.series = newSeriesSet(
		func(account string) accountSeries { return create(strings.Clone(account)) },
		func(account string) {
			for _, v := range m.vecs {
				v.DeletePartialMatch(prometheus.Labels{"account": account})
			}
		})
	m.series.add(otherAccounts, 0)
	var descs []*prometheus.Desc
	for _, v := range m.vecs {
		one := make(chan *prometheus.Desc, 1)
		v.Describe(one)
		descs = append(descs, <-one)
	}
	reg.MustRegister(stateCollector{descs: descs, collect: func(out chan<- prometheus.Metric) {
		m.series.prune(time.Now(), accountStaleAfter, func(account string) bool { return account == otherAccounts })
		for _, v := range m.vecs {
			v.Collect(out)
		}
	}})
}

// finished counts a final event. A request without an account is not counted.
func (m *accounts) finished(e *analytics.Event) {
	if m == nil || e.Account == "" {
		return
	}
	s := m.of(e.Account)
	if c := s.requests[e.Outcome]; c != nil {
		c.Inc()
	}
	if s.refusals != nil && e.Outcome == analytics.OutcomeRefused {
		s.refusals.WithLabelValues(m.reasons.bounded(cmp.Or(e.Reason, e.Code))).Inc()
	}
	if s.tokens != nil {
		eachTokenCount(e, func(kind string, n int) { s.tokens[kind].Add(float64(n)) })
	}
	if s.cost != nil && e.Cost > 0 {
		s.cost.WithLabelValues(strings.Clone(e.CostUnit)).Add(e.Cost)
	}
}

// of returns the series of an account, or those of all others together if the places are taken.
func (m *accounts) of(account string) accountSeries {
	s, found := m.series.find(account)
	if !found {
		if s, found = m.series.add(account, m.limit+1); !found { // the others have a place, too
			s, _ = m.series.find(otherAccounts)
		}
	}
	return s
}
