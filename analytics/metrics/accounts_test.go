package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"colonnade/analytics"
	"colonnade/analytics/metrics"
	"colonnade/permits"
	"colonnade/reasons"
)

// accountMetrics returns a registry with the metrics of an entry and of a colo server, and what counts an event at both.
func accountMetrics(limit int) (reg *prometheus.Registry, finish func(account string)) {
	reg = prometheus.NewRegistry()
	entry := metrics.NewEntry(metrics.WithRole(reg, "entry"), emptyTable, func() []metrics.ModelState { return nil }, limit)
	colo := metrics.NewColo(metrics.WithRole(reg, "colo"), emptyTable, func() []permits.Stats { return nil }, limit)
	return reg, func(account string) {
		entry.Finished(&analytics.Event{Account: account, Outcome: analytics.OutcomeCompleted})
		entry.Finished(&analytics.Event{Account: account, Outcome: analytics.OutcomeRefused, Reason: reasons.QueueFull})
		colo.Finished(&analytics.Event{Account: account, Outcome: analytics.OutcomeCompleted, PromptTokens: 10, CompletionTokens: 5, Cost: 0.25, CostUnit: "USD"})
	}
}

func TestAccountsHaveNoMetricsByDefault(t *testing.T) {
	reg, finish := accountMetrics(0)
	finish("acme")
	if text := scrape(t, reg); strings.Contains(text, "acme") || strings.Contains(text, "colonnade_account") {
		t.Errorf("accounts have metrics:\n%s", text)
	}
}

func TestAccountsUpToTheLimitHaveMetricsOfTheirOwn(t *testing.T) {
	reg, finish := accountMetrics(2)
	for _, account := range []string{"acme", "zeta", "acme", "late", "later", ""} {
		finish(account)
	}
	compare(t, reg, `
		colonnade_account_requests_total{account="acme",outcome="completed",role="entry"} 2
		colonnade_account_requests_total{account="acme",outcome="refused",role="entry"} 2
		colonnade_account_refusals_total{account="acme",reason="queue_full",role="entry"} 2
		colonnade_account_tokens_total{account="acme",role="colo",type="prompt"} 20
		colonnade_account_tokens_total{account="acme",role="colo",type="completion"} 10
		colonnade_account_cost_total{account="acme",role="colo",unit="USD"} 0.5
		colonnade_account_requests_total{account="zeta",outcome="completed",role="entry"} 1
		colonnade_account_requests_total{account="other",outcome="completed",role="entry"} 2
		colonnade_account_cost_total{account="other",role="colo",unit="USD"} 0.5`)
	if strings.Contains(scrape(t, reg), "late") {
		t.Error("more accounts have series than the limit")
	}
}

// However many accounts there are, the number of series is bounded.
func TestSeriesOfAccountsAreBounded(t *testing.T) {
	reg, finish := accountMetrics(10)
	names := []string{
		"colonnade_account_requests_total", "colonnade_account_refusals_total", "colonnade_account_tokens_total", "colonnade_account_cost_total",
	}
	count := func(accounts int) int {
		t.Helper()
		for i := range accounts {
			finish(fmt.Sprintf("account-%d", i))
		}
		n, err := testutil.GatherAndCount(reg, names...)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const each = 7 + 1 + 4 + 1 // outcomes, the reason, types, the unit
	if few, many := count(11), count(5000); few != 11*each || many != few {
		t.Errorf("%d series of 11 accounts, %d of 5000; want %d of both", few, many, 11*each)
	}
}

// An account without requests for a day gives its place to another.
func TestPlacesOfIdleAccountsBecomeFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, finish := accountMetrics(1)
		expect := func(after time.Duration, own, other string) {
			t.Helper()
			time.Sleep(after)
			text := scrape(t, reg)
			for _, account := range []string{"acme", "zeta"} {
				if strings.Contains(text, account) != (account == own) {
					t.Errorf("series of %s: %v", account, account != own)
				}
			}
			compare(t, reg, `colonnade_account_requests_total{account="other",outcome="completed",role="entry"} `+other)
		}
		finish("acme")
		finish("zeta")
		expect(0, "acme", "1")
		expect(23*time.Hour, "acme", "1")
		finish("acme")
		expect(2*time.Hour, "acme", "1")
		expect(25*time.Hour, "", "1")
		finish("zeta")
		finish("acme")
		expect(0, "zeta", "2")
	})
}
