package colo

import (
	"log/slog"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// An endpoint is blamed for a timeout only if the request came to it early enough.
func TestWhoIsBlamedForATimeout(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	end := began.Add(time.Minute)
	f := func(what string, sent, ended time.Time, phase transport.Phase, blamed bool, reason string) {
		t.Helper()
		docs := document.NewSet()
		for _, id := range []string{"one", "two"} {
			if err := docs.Put("endpoints/ams/"+id, []byte("url: http://"+id+"\npool: p\n"), 1); err != nil {
				t.Fatal(err)
			}
		}
		manager := admission.NewManager("ams", nil, slog.New(slog.DiscardHandler))
		manager.Apply(docs.Table())
		c := &call{model: &fleet.Model{}, deadline: end, sent: sent, firstByte: ended}
		c.model.Timeouts.FirstByte, c.model.Timeouts.Total = fleet.Duration(20*time.Second), fleet.Duration(time.Minute)
		c.pool, _ = manager.Pool("p")
		c.grant.Endpoint = docs.Table().EndpointsOf("ams")[0]
		for range 5 {
			next := c.classifyError(&transport.ExchangeError{Phase: phase, Timeout: true})
			if next.again || next.failure != reason || next.err.Number != openai.NumberInferenceTimeout {
				t.Errorf("%s: %+v", what, next)
			}
		}
		if state := c.pool.Stats().Endpoints[0].State; (state == "ejected") != blamed {
			t.Errorf("%s: the endpoint is %s, want it blamed: %v", what, state, blamed)
		}
	}
	f("no first byte in time", began, began.Add(20*time.Second), transport.PhaseFirstByte, true, reasons.FirstByteTimeout)
	f("nothing in all the time", began, end, transport.PhaseFirstByte, true, reasons.TotalTimeout)
	f("nothing in what the queue has left", end.Add(-time.Second), end, transport.PhaseFirstByte, false, reasons.TotalTimeout)
	f("not connected in what the queue has left", end.Add(-time.Second), end, transport.PhaseConnect, false, reasons.TotalTimeout)
}
