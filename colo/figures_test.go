package colo

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/permits"
)

// startKind runs a simulated engine of a kind, and returns its URL.
func startKind(t *testing.T, c simengine.Config) (*simengine.Engine, string) {
	t.Helper()
	c.Models = []string{"m"}
	e := simengine.New(c)
	server := httptest.NewServer(e)
	t.Cleanup(func() { e.Close(); server.Close() })
	return e, server.URL
}

// fill gives an engine so many requests that do not come from the colo, and that it keeps until the test ends.
func fill(t *testing.T, e *simengine.Engine, url string, requests int) {
	t.Helper()
	e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: requests})
	for range requests {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if answer, err := http.DefaultClient.Do(r); err == nil {
				answer.Body.Close()
			}
		}()
	}
	testkit.WaitFor(t, "the requests to arrive", func() bool { st := e.Stats(); return st.Running+st.Waiting == requests })
}

// said is what the engine of an endpoint says about itself; nil if nothing is known.
func (s *testServer) said(pool, id string) *permits.EngineStats {
	for _, e := range s.pool(pool).Endpoints {
		if e.ID == id {
			return e.Engine
		}
	}
	return nil
}

func number[N any](n *N) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

const figuresDocument = "---\nkey: endpoints/ams/%s\nurl: %s\npool: e\nengine: %s\nconcurrency: 4\nhealth: {interval: 50ms, timeout: 10s}\n"

// The figures of each kind of engine are read where engines of the kind have them.
func TestFiguresOfEachKind(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	documents, want := "key: pools/e\n", map[string]string{
		"vllm": "1 1 2 1", "sglang": "1 1 2 1", "tgi": "1 1 2 ?", "llamacpp": "1 1 2 ?", "triton": "1 1 2 1", "tei": "? 0 ? ?", "ollama": "none", "openai": "none",
	}
	for kind := range want {
		e, url := startKind(t, simengine.Config{Kind: kind, Slots: 1})
		if kind != "tei" { // which has no chats
			fill(t, e, url, 2)
		}
		documents += fmt.Sprintf(figuresDocument, kind, url, kind)
	}
	s.apply(documents)
	for kind, want := range want {
		got := ""
		s.until("what "+kind+" says to be "+want, func() bool {
			got = "none"
			if said := s.said("e", kind); said != nil {
				got = fmt.Sprintf("%s %s %s %s", number(said.Running), number(said.Waiting), number(said.Beside), number(said.KVCache))
			}
			return got == want
		})
	}
	for _, e := range s.pool("e").Endpoints {
		if e.State != "up" {
			t.Errorf("%s is %s: %s", e.ID, e.State, e.Reason)
		}
	}
}

// An engine whose metrics are missing, late, without end or no metrics at all stays up, and is served; the state says why nothing is known.
func TestFaultsOfMetricsHarmNothing(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		simengine.FaultMetricsMissing: "/metrics answered 404",
		simengine.FaultMetricsHuge:    "more than 4 MiB",
		simengine.FaultMetricsGarbage: "no metrics that are known at /metrics",
		simengine.FaultMetricsSlow:    "deadline",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			e, url := startKind(t, simengine.Config{Kind: "vllm", Slots: 4, TTFT: time.Millisecond, ITL: time.Millisecond, Tokens: 2})
			e.SetFault(simengine.Fault{Fault: fault})
			document := strings.Replace(fmt.Sprintf(figuresDocument, "one", url, "vllm"), "timeout: 10s", "timeout: 2s", 1)
			s.apply("key: pools/e\n---\nkey: models/m\npool: e\n" + document)
			s.until("the state to say "+want, func() bool {
				said := s.said("e", "one")
				return said != nil && strings.Contains(said.Error, want) && said.Running == nil
			})
			answer, err := s.send(t.Context(), hopFor("m"), `{"model":"m","max_tokens":1,"messages":[]}`)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if state := s.pool("e").Endpoints[0].State; state != "up" || answer.StatusCode != 200 {
				t.Errorf("the engine is %s, and answers %d", state, answer.StatusCode)
			}
			if fault == simengine.FaultMetricsSlow {
				e.ClearFaults()
				s.until("figures to be known", func() bool { said := s.said("e", "one"); return said != nil && said.Running != nil && said.Error == "" })
			}
		})
	}
}

// Requests go to the engine that others have not filled.
func TestBalanceByWhatEnginesSay(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	config := simengine.Config{Kind: "vllm", Slots: 8, TTFT: time.Millisecond, ITL: time.Millisecond, Tokens: 2, Record: 64}
	busy, busyURL := startKind(t, config)
	idle, idleURL := startKind(t, config)
	fill(t, busy, busyURL, 3)
	s.apply("key: pools/e\n---\nkey: models/m\npool: e\n" + fmt.Sprintf(figuresDocument, "busy", busyURL, "vllm") + fmt.Sprintf(figuresDocument, "idle", idleURL, "vllm"))
	s.until("both to be known", func() bool {
		b, i := s.said("e", "busy"), s.said("e", "idle")
		return b != nil && b.Beside != nil && *b.Beside == 3 && i != nil && i.Beside != nil && *i.Beside == 0
	})
	before := busy.Stats().Requests
	for range 10 {
		answer, err := s.send(t.Context(), hopFor("m"), `{"model":"m","max_tokens":1,"messages":[]}`)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	if n, m := busy.Stats().Requests-before, idle.Stats().Requests; n != 0 || m != 10 {
		t.Errorf("of ten requests, the busy engine got %d and the idle one %d", n, m)
	}
}

// Answers that are not streamed show nothing of an engine that has fewer slots than its limit. Its metrics do: the limit falls to the slots, and
// not below.
func TestWaitingInsideLowersALimit(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	_, url := startKind(t, simengine.Config{Kind: "vllm", Slots: 4, TTFT: 20 * time.Millisecond, ITL: time.Millisecond, Tokens: 20})
	document := strings.Replace(fmt.Sprintf(figuresDocument, "one", url, "vllm"), "concurrency: 4", "concurrency: auto\nauto: {min: 2, max: 32}", 1)
	s.apply("key: pools/e\nqueue: {limit: 100, per_account: 100}\n---\nkey: models/m\npool: e\n" + document)
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 24 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if answer, err := s.send(ctx, hopFor("m"), `{"model":"m","messages":[]}`); err == nil {
					answer.Body.Close()
				}
			}
		})
	}
	limit := func() int { return s.pool("e").Endpoints[0].Concurrency }
	s.until("the limit to fall to the slots", func() bool { return limit() <= 5 })
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		if n := limit(); n < 2 || n > 8 {
			t.Errorf("the limit is %d", n)
		}
	}
}

// An engine without such a page is asked rarely. One that cannot answer now is asked again soon.
func TestStatusesWithoutAPage(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{301: true, 401: true, 403: true, 404: true, 405: true, 501: true, 408: false, 429: false, 500: false, 502: false, 503: false} {
		if noPage(status) != want {
			t.Errorf("%d: %v", status, noPage(status))
		}
	}
}
