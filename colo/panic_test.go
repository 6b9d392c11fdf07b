package colo

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/forwarding/peer"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// trap is a log that panics over some messages: a bug in whatever part of the server says them.
type trap struct {
	slog.Handler
	over []string
}

func setTrap(over ...string) *slog.Logger { return slog.New(trap{slog.DiscardHandler, over}) }

// Enabled makes Handle be called.
func (p trap) Enabled(context.Context, slog.Level) bool { return true }

// Handle panics, perhaps.
func (p trap) Handle(_ context.Context, r slog.Record) error {
	if slices.Contains(p.over, r.Message) {
		panic("a bug of ours")
	}
	return nil
}

// outcomes are those of all final events.
func (s *testServer) outcomes() (all []analytics.Outcome) {
	s.t.Helper()
	for e, err := range journal.ReadDir(s.events) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Phase == analytics.PhaseEnd {
			all = append(all, e.Outcome)
		}
	}
	return all
}

// survived checks that nothing of a request is left, and that so many attempts have their one final event.
func (s *testServer) survived(events int) {
	s.t.Helper()
	s.until("the request to be gone", func() bool { return s.inflight.Count() == 0 && s.held() == 0 })
	for _, p := range s.Pools() {
		if p.Queued != 0 {
			s.t.Errorf("%d requests wait", p.Queued)
		}
	}
	if errs := s.Check(); len(errs) > 0 {
		s.t.Error(errs)
	}
	ends := 0
	for e, err := range journal.ReadDir(s.events) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Phase != analytics.PhaseEnd {
			continue
		}
		if ends++; e.Outcome != analytics.OutcomeCrashed || e.Reason != reasons.Panic {
			s.t.Errorf("an event says %s, %s", e.Outcome, e.Reason)
		}
	}
	if ends != events {
		s.t.Errorf("%d final events, want %d", ends, events)
	}
}

// A panic costs its own request, at any stage: the request is answered, its permit is free, and an attempt that had a permit has a final
// event.
func TestPanicAtAnyStage(t *testing.T) {
	const misconfigured = "endpoint misconfigured"
	refusing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	for _, stage := range []struct {
		name   string
		change func(*Server)
		events int
	}{
		{"before the body is read", func(s *Server) { s.config.Keys = nil }, 0},
		{"when it was read", func(s *Server) { s.budget = nil }, 0},
		{"after the grant, and while that is logged", func(s *Server) { s.metrics = nil }, 1},
		{"over the answer", func(s *Server) { s.config.Logger = setTrap(misconfigured) }, 1},
		{"over the answer, and in logging that", func(s *Server) { s.config.Logger = setTrap(misconfigured, "handler panicked") }, 1},
	} {
		t.Run(stage.name, func(t *testing.T) {
			s := startServerBy(t, stage.change)
			s.engine(refusing)
			for _, body := range []string{`{"model":"x","messages":[]}`, `{"model":"x","messages":["` + strings.Repeat("x", 100<<10) + `"]}`} {
				answer, err := s.send(t.Context(), hopFor("late"), body)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if answer.StatusCode != 500 || err != nil || !strings.Contains(string(text), `"number":50000`) {
					t.Errorf("answer %d %s, %v", answer.StatusCode, text, err)
				}
			}
			s.survived(2 * stage.events)
		})
	}
}

// So does a panic in a colo that is called as a function, even if the answer to the panic panics, too.
func TestPanicOfDo(t *testing.T) {
	const misconfigured = "endpoint misconfigured"
	for _, over := range [][]string{{misconfigured}, {misconfigured, "handler panicked"}} {
		s := startServerBy(t, func(s *Server) { s.config.Logger = setTrap(over...) })
		s.engine(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
		func() {
			defer func() {
				if panicked := recover() != nil; panicked != (len(over) == 2) {
					t.Errorf("traps over %q: the caller sees a panic: %v", over, panicked)
				}
			}()
			route, _ := openai.ParseRoute([]byte("POST"), []byte("/v1/chat/completions"))
			answer, err := s.Do(t.Context(), &peer.Request{Token: hopFor("late"), Route: route, Body: []byte(`{"model":"x","messages":[]}`)})
			if err != nil || answer.Error.Status != 500 {
				t.Errorf("answer %+v, %v", answer, err)
			}
		}()
		s.survived(1)
	}
}

// A request that has queued before it panics leaves neither its place nor its permit behind.
func TestPanicAfterQueueing(t *testing.T) {
	s := startServerBy(t, func(s *Server) { s.metrics = nil })
	s.apply(lateModel)
	pool, _ := s.pools.Pool("p")
	first, err := pool.Acquire(t.Context(), &permits.Request{Account: "b", Weight: 1})
	if err != nil {
		t.Fatal(err)
	}
	statuses := make(chan int, 3)
	for range 3 {
		go func() {
			status, _ := s.chat("late")
			statuses <- status
		}()
	}
	s.until("the requests to wait", func() bool { return s.pool("p").Queued == 3 })
	first.Release()
	for range 3 {
		if status := <-statuses; status != 500 {
			t.Errorf("answer %d", status)
		}
	}
	s.survived(3)
}

// A panic while the end of a stream is logged cuts the stream and costs nothing else.
func TestPanicInMidStream(t *testing.T) {
	s := startServer(t)
	s.engine(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\n")
		w.(http.Flusher).Flush()
		close(s.disk.panics) // over the event
		s.disk.stall()
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	})
	answer, err := s.send(t.Context(), hopFor("late"), `{"model":"x","messages":[],"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != 200 || err == nil || strings.Contains(string(text), "[DONE]") {
		t.Errorf("answer %d %q, %v: want it cut", answer.StatusCode, text, err)
	}
	s.survived(0) // the log is what has panicked
}

// So does one at a session's end.
func TestPanicInASession(t *testing.T) {
	s := startServer(t)
	c := s.open("voice")
	close(s.disk.panics)
	s.disk.stall()
	_ = c.Close()
	s.survived(0)
}
