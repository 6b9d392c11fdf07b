package entry

import (
	"log/slog"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/forwarding/server"
	"colonnade/openai"
)

// One final event for each request, whatever calls for one, and also if nothing does.
func TestOneFinalEvent(t *testing.T) {
	f := func(want analytics.Outcome, life func(*call)) {
		t.Helper()
		dir := t.TempDir()
		log, err := journal.Open(journal.Config{Dir: dir, Node: "edge"})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		inflight, err := server.NewInflight(slog.New(slog.DiscardHandler), server.DefaultBodyMemory)
		if err != nil {
			t.Fatal(err)
		}
		e := &Entry{config: Config{Node: "edge", Log: log}, inflight: inflight, active: newActivity()}
		e.metrics = metrics.NewEntry(metrics.NewRegistry(), nil, func() []metrics.ModelState { return nil }, 0)
		c := e.newCall(nil, time.Now())
		life(c)
		c.close()
		c.close()
		if err := inflight.Close(); err != nil {
			t.Error(err)
		}
		var got []analytics.Outcome
		for e, err := range journal.ReadDir(dir) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Outcome)
		}
		if len(got) != 1 || got[0] != want || log.Stats().OpenBegins != 0 {
			t.Errorf("final events %v, want %s; %d begins are open", got, want, log.Stats().OpenBegins)
		}
	}
	f(analytics.OutcomeRefused, func(c *call) { c.logRefusal(openai.InvalidAPIKey("no")) })
	f(analytics.OutcomeRefused, func(c *call) {
		c.logBegin()
		c.logRefusal(openai.OutOfCapacity("queue_full", 0))
		c.logRefusal(openai.Internal())
	})
	f(analytics.OutcomeCompleted, func(c *call) {
		c.logBegin()
		c.logOwnAnswer(nil)
		c.logCancelled(analytics.OutcomeClientGone)
	})
	f(analytics.OutcomeCrashed, func(c *call) { // a relay that has panicked
		c.logBegin()
	})
	f(analytics.OutcomeCrashed, func(c *call) {
		c.logBegin()
		c.logRefusal(openai.Internal())
	})
}

// A stream that a colo has cut tells why, in words of ours only.
func TestOutcomeOfError(t *testing.T) {
	f := func(reported openai.EngineError, outcome analytics.Outcome, reason string) {
		t.Helper()
		e := &analytics.Event{Outcome: analytics.OutcomeEngineError, Reason: "truncated"}
		if outcomeOfError(e, reported); e.Outcome != outcome || e.Reason != reason {
			t.Errorf("%+v: %s %s, want %s %s", reported, e.Outcome, e.Reason, outcome, reason)
		}
	}
	f(openai.EngineError{Status: 500, Code: "server_error"}, analytics.OutcomeEngineError, "truncated")
	f(openai.EngineError{Number: 50001, Reason: "truncated"}, analytics.OutcomeEngineError, "truncated")
	f(openai.EngineError{Number: 50401, Reason: "idle_timeout"}, analytics.OutcomeTimeout, "idle_timeout")
	f(openai.EngineError{Number: 50401, Reason: "total_timeout"}, analytics.OutcomeTimeout, "total_timeout")
	f(openai.EngineError{Number: 50401, Reason: "anything"}, analytics.OutcomeTimeout, "total_timeout")
	f(openai.EngineError{Number: 50301, Reason: "anything"}, analytics.OutcomeDrained, "draining")
}
