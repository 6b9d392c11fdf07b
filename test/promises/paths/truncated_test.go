package paths_test

import (
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/simengine"
)

// An answer that the engine does not bring to its end does not look complete. A stream ends with an error in the words of its API and without
// its proper end, and then its connection; any other answer is an error.
func TestTruncatedAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1, Tokens: 12})
	each(t, func(t *testing.T, c pathCase, stream bool) {
		faults := []string{simengine.FaultCutAtChunk, simengine.FaultCutInChunk, simengine.FaultShortBody}
		if stream {
			faults = []string{simengine.FaultCutAtChunk, simengine.FaultCutInChunk, simengine.FaultNoDone}
		}
		for _, fault := range faults {
			id, e := idOf(c, stream)+"-"+fault, s.engines[c.engine]
			e.SetFault(simengine.Fault{Fault: fault})
			before := e.Stats().Requests
			conn := s.send(t, c, stream, id)
			a := conn.Read()
			e.ClearFaults()
			if stream {
				c.expectCutStream(t, fault, a.Status, a.Err, a.Body)
			} else if a.Status != 502 || a.Err != nil || !strings.HasPrefix(a.Body, c.refusal.begins) {
				t.Errorf("%s: %d %v: %s", fault, a.Status, a.Err, a.Body)
			}
			conn.Close()
			s.rested(t, c)
			if n := e.Stats().Requests - before; stream && n != 1 {
				t.Errorf("%s: the engine got %d requests, want 1", fault, n)
			}
			if final := s.In(t).FinalEvent(analytics.KindRequest, id); final.Outcome == analytics.OutcomeCompleted {
				t.Errorf("%s: the request event says %s", fault, final.Outcome)
			}
		}
	})
}

func (c pathCase) expectCutStream(t *testing.T, fault string, status int, err error, body string) {
	t.Helper()
	if status != 200 || err == nil {
		t.Errorf("%s: %d %v: the connection should end without the answer's end", fault, status, err)
	}
	if !strings.Contains(body, "takes") || strings.Contains(body, c.end) {
		t.Errorf("%s: the stream has its proper end, or lacks what was generated: %s", fault, body)
	}
	at := strings.LastIndex(body, c.refusal.event)
	if at < 0 || strings.Count(strings.TrimRight(body[at+len(c.refusal.event):], "\n"), "\n") > 0 {
		t.Errorf("%s: the stream does not end with an error of its API, %s: %s", fault, c.refusal.event, body)
	}
}
