package paths_test

import (
	"slices"
	"strings"
	"testing"

	"colonnade/internal/simengine"
	"colonnade/internal/wiretest"
)

// An engine's errors reach the client in the shape of the path's API, also those of engines that have another one there: what is wrong with a
// request with the engine's status and words, and that the engine failed as 502.
func TestEngineErrors(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	each(t, func(t *testing.T, c pathCase, stream bool) {
		if c.path == "/generate_stream" {
			return // TGI reports every error of this path in its stream, as TestErrorEvents expects
		}
		f := func(fault, says string, status ...int) {
			t.Helper()
			s.engines[c.engine].SetFault(simengine.Fault{Fault: fault})
			a := s.send(t, c, stream, idOf(c, stream)+"-"+fault).Read()
			s.engines[c.engine].ClearFaults()
			if a.Err != nil || !slices.Contains(status, a.Status) || !c.refusal.is(a.Body) || !strings.Contains(a.Body, says) {
				t.Errorf("%s: %d %v: %s; want one of %v, in the shape of the path, and %q", fault, a.Status, a.Err, a.Body, status, says)
			}
			s.rested(t, c)
		}
		f(simengine.FaultError400, "The engine does not like this request", 400, 422)
		f(simengine.FaultError500, "", 502)
	})
}

// An engine's error in mid-stream is relayed once and unchanged, with the end that the engine gives the stream, and none of the gateway's.
// Ollama reports none on Anthropic's path: it only leaves out the end, which is an error of the gateway then.
func TestErrorEvents(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1, Tokens: 12})
	each(t, func(t *testing.T, c pathCase, stream bool) {
		if !stream {
			return
		}
		silent := c.engine.kind == "ollama" && c.path == "/v1/messages"
		for _, fault := range []string{simengine.FaultErrorThenDone, simengine.FaultErrorThenCut} {
			s.engines[c.engine].SetFault(simengine.Fault{Fault: fault})
			conn := s.send(t, c, true, idOf(c, true)+"-"+fault)
			a := conn.Read()
			s.engines[c.engine].ClearFaults()
			c.expectErrorEvent(t, fault, a, silent)
			conn.Close()
			s.rested(t, c)
		}
	})
}

func (c pathCase) expectErrorEvent(t *testing.T, fault string, a wiretest.Response, silent bool) {
	t.Helper()
	engines, own := strings.Count(a.Body, "The engine failed on purpose."), strings.Count(a.Body, "engine_error")
	if silent && (engines != 0 || own != 1) || !silent && (engines != 1 || own != 0) {
		t.Errorf("%s: %d errors of the engine and %d of the gateway: %s", fault, engines, own, a.Body)
	}
	ends := strings.Contains(a.Body, c.end)
	if want := fault == simengine.FaultErrorThenDone && c.engine.kind == "sglang"; ends != want {
		t.Errorf("%s: has its proper end: %v, want %v: %s", fault, ends, want, a.Body)
	}
	if fault == simengine.FaultErrorThenCut && a.Err == nil {
		t.Errorf("%s: the answer came to its end: %s", fault, a.Body)
	}
}
