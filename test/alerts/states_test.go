package alerts_test

import (
	"maps"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
)

// Conditions that last for longer than a test may, or that the tests of other packages cause: the fleet is a real one, and one of
// its samples is set to what such tests find. So a metric that is renamed is noticed here, too.
func TestStatesThatOtherTestsCause(t *testing.T) {
	t.Parallel()
	r := start(fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), ""))
	for _, c := range []struct {
		series string // as a node exports it
		value  float64
		alert  string
	}{
		{`colonnade_grants_enabled{`, 0, "ColonnadeNoGrants"},
		{`colonnade_config_deletions_pending{`, 3, "ColonnadeDeletionsHeld"},
		{`colonnade_engines{state="wanted"`, 1, "ColonnadeEnginesWanted"},
		{`colonnade_written_off_total{`, 1, "ColonnadeWrittenOff"},
		{`colonnade_problems{kind="gpu_failed",severity="warning"`, 1, "ColonnadeGPUFailed"},
		{`colonnade_problems{kind="engine_out",severity="warning"`, 1, "ColonnadeEngineOut"},
		{`colonnade_problems{kind="engine_restarting",severity="warning"`, 1, "ColonnadeEngineRestarting"},
		{`colonnade_hop_tokens_refused_total{kind="replayed"`, 1, "ColonnadeHopTokenReplayed"},
	} {
		during := &export{taken: r.before[0].taken, kinds: r.before[0].kinds, values: maps.Clone(r.before[0].values)}
		set := 0
		for series := range during.values {
			if strings.HasPrefix(series, strings.TrimSuffix(c.series, "}")) {
				during.values[series] = c.value
				set++
			}
		}
		if set == 0 {
			t.Errorf("no node exports %s", c.series)
			continue
		}
		one := *r
		one.during = []*export{during}
		one.expect(t, c.alert)
	}
}

func TestDocumentRejected(t *testing.T) {
	t.Parallel()
	r := start(fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), ""))
	r.Operator().Put("key: models/demo-chat\npool: [demo]")
	for _, admin := range r.Admins() {
		testkit.WaitFor(t, "the document to be rejected", func() bool { return r.Metric(admin, "colonnade_config_rejected") == 1 })
	}
	r.scrape()
	r.expect(t, "ColonnadeDocumentRejected")
}
