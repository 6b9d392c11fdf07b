package colo

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/reasons"
)

// A body that is too long by this server's table may not be by another's, so the refusal carries a verdict for the other node.
func TestBodyTooLongByOurTable(t *testing.T) {
	s := startServer(t)
	s.apply(strings.Replace(lateModel, "pool: p", "pool: p\nmax_body: 64KiB", 1))
	body := `{"model":"x","messages":[],"user":"` + strings.Repeat("x", s.maxBody()) + `"}`
	answer, err := s.send(t.Context(), hopFor("late"), body)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	v, err := hop.ParseVerdict(answer.Header.Get(hop.HeaderVerdict))
	if answer.StatusCode != 413 || err != nil || v.Kind != hop.VerdictError || v.Reason != "request_too_large" || v.Final {
		t.Errorf("answer %d, verdict %+v, %v", answer.StatusCode, v, err)
	}
}

// An unknown model is looked for as long as the request has time and its client waits.
func TestModelIsLookedForInTime(t *testing.T) {
	s := startServer(t)
	for reason, bound := range map[string]func(*hop.Token){
		"first_byte_timeout": func(h *hop.Token) { h.FirstByte = hop.Millis(tableSkew / 10) },
		"total_timeout":      func(h *hop.Token) { h.Total = hop.Millis(tableSkew / 10) },
	} {
		token := hopFor("gone")
		bound(&token)
		s.soon(reason, func() {
			answer, err := s.send(t.Context(), token, "{}")
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			v, err := hop.ParseVerdict(answer.Header.Get(hop.HeaderVerdict))
			if answer.StatusCode != 504 || err != nil || v.Reason != reason || !v.Final {
				t.Errorf("answer %d, verdict %+v, %v, want %s", answer.StatusCode, v, err, reason)
			}
		})
	}
	s.soon("without a client", func() {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(tableSkew/10, leave)
		if _, err := s.send(ctx, hopFor("gone"), "{}"); err == nil {
			t.Error("a client that has gone was answered")
		}
		s.until("nothing to be in flight", func() bool { return s.inflight.Count() == 0 })
	})
}

// soon expects that a model is not looked for as long as it might be, in one of several attempts: the machine may be slow.
func (s *testServer) soon(what string, do func()) {
	s.t.Helper()
	var took time.Duration
	for range 5 {
		began := time.Now()
		do()
		if took = time.Since(began); took < tableSkew*9/10 {
			return
		}
	}
	s.t.Errorf("%s: looked for it for %v", what, took)
}

// A disk that stalls holds no permit of an answer whose engine has said everything.
func TestPermitIsFreeBeforeTheEvent(t *testing.T) {
	s := startServer(t)
	s.engine(func(w http.ResponseWriter, _ *http.Request) {
		s.disk.stall()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
	})
	answered := make(chan error, 1)
	go func() {
		answer, err := s.send(t.Context(), hopFor("late"), `{"model":"x","messages":[]}`)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		answered <- err
	}()
	<-s.disk.stalls
	if n := s.held(); n != 0 {
		t.Errorf("%d permits held while the event is written", n)
	}
	select {
	case err := <-answered:
		t.Errorf("the last byte was there before the event: %v", err)
	default:
	}
	close(s.disk.goesOn)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A stream has its event with its API's end; its permit goes with the end of the exchange.
func TestPermitIsHeldUntilTheExchangeEnds(t *testing.T) {
	s := startServer(t)
	end := make(chan struct{})
	s.engine(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n")
		w.(http.Flusher).Flush()
		<-end
	})
	answer, err := s.send(t.Context(), hopFor("late"), `{"model":"x","messages":[],"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got []byte
	for !strings.Contains(string(got), "[DONE]") {
		piece := make([]byte, 1<<10)
		n, err := answer.Body.Read(piece)
		if got = append(got, piece[:n]...); err != nil {
			t.Fatalf("%v after %q", err, got)
		}
	}
	if n := s.held(); n != 1 {
		t.Errorf("%d permits held while the engine is still busy", n)
	}
	close(end)
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Error(err)
	}
	s.until("the permit to be free", func() bool { return s.held() == 0 })
}

// A request that comes to a server twice, or over too many hops, ends with a verdict that allows no other attempt.
func TestRequestThatHasComeTooFar(t *testing.T) {
	s := startServer(t)
	s.apply(lateModel)
	for reason, change := range map[string]func(*hop.Token){
		reasons.RoutingLoop: func(h *hop.Token) { h.Visited = []string{"fra-1", "ams-1"} },
		reasons.HopLimit:    func(h *hop.Token) { h.HopsLeft = -1 },
	} {
		token := hopFor("late")
		change(&token)
		answer, err := s.send(t.Context(), token, `{"model":"x","messages":[]}`)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		v, err := hop.ParseVerdict(answer.Header.Get(hop.HeaderVerdict))
		if answer.StatusCode != 503 || err != nil || v.Kind != hop.VerdictError || v.Reason != reason || !v.Final {
			t.Errorf("answer %d, verdict %+v, %v, want %s", answer.StatusCode, v, err, reason)
		}
	}
}
