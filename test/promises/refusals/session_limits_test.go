package refusals_test

import (
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
)

// Realtime sessions count against budgets and limits of tokens, although the entry relays only their bytes: also if the client
// has left without a close frame.
func TestSessionsCountAgainstLimits(t *testing.T) {
	t.Parallel()
	leaver, leaverDocument := fleettest.NewAccountKey(t, "leaver", "limits: {tokens_per_minute: 1000000, budget: {month: 0.5}}")
	closer, closerDocument := fleettest.NewAccountKey(t, "closer", "limits: {budget: {month: 0.5}}")
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(4)), leaverDocument+closerDocument+
		"key: models/spoken\ntype: realtime\npool: demo\nupstream_name: demo-realtime\ncost: {unit: usd, input: 1, output: 1, per: 1}\n")
	for key, end := range map[string]func(fleettest.Session){
		closer: func(s fleettest.Session) { s.HangUp(1000, ""); s.ExpectClose(1000, "") },
		leaver: func(s fleettest.Session) { s.Close() },
	} {
		s := f.DialRealtime("spoken", "Authorization", "Bearer "+key)
		s.Say(`{"type":"response.create"}`)
		s.Hear("response.done")
		if a := f.RawChat(fleettest.ChatBody(1, false), "Authorization: Bearer "+key); a.Status != 200 { // of a model without a price
			t.Errorf("during the session: %d %s", a.Status, a.Body)
		}
		end(s)
		testkit.WaitFor(t, "the budget to be spent", func() bool {
			a := f.RawChat(fleettest.ChatBody(1, false), "Authorization: Bearer "+key)
			return a.Status == 429 && strings.Contains(a.Body, "budget_spent")
		})
	}
}
