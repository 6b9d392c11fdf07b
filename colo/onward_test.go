package colo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/liveness"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
	"colonnade/reasons"
)

// nextColo is the next colo of a plan: it notes the tokens that it gets, and answers as a test says.
type nextColo struct {
	t      *testing.T
	first  *testServer
	stop   hop.Stop
	tokens chan hop.Token
	signed atomic.Pointer[string] // the latest token, as it came
	answer atomic.Pointer[http.HandlerFunc]
}

// startPair starts a colo server without room, and the next colo of its requests.
func startPair(t *testing.T) *nextColo {
	t.Helper()
	return startPairBy(t, func(*Config) {})
}

// startPairBy is startPair of a server with another configuration.
func startPairBy(t *testing.T, configure func(*Config)) *nextColo {
	t.Helper()
	n := &nextColo{t: t, first: startConfigured(t, configure, func(*Server) {}), tokens: make(chan hop.Token, 10)}
	n.first.apply("key: models/late\npool: p\n---\nkey: pools/p\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var v hop.Verified
		if err := n.first.keys.VerifyHead(&v, []byte(r.Header.Get(hop.HeaderToken)), &hop.Binding{
			Audience: "fra/fra-1", Method: r.Method, Target: r.URL.Path, AppendHeader: valuesOf(r.Header),
		}, time.Now()); err != nil || v.VerifyBody(body) != nil {
			t.Errorf("token: %v", err)
		} else {
			signed := r.Header.Get(hop.HeaderToken)
			n.signed.Store(&signed)
			n.tokens <- v.Token
		}
		(*n.answer.Load())(w, r)
	}))
	t.Cleanup(server.Close)
	n.stop = hop.Stop{Colo: "fra", Node: "fra-1", Address: strings.TrimPrefix(server.URL, "http://"), Boot: "BOOT", Revision: 9, ReturnProbability: 0.5}
	return n
}

// answers sets what the next colo answers.
func (n *nextColo) answers(do http.HandlerFunc) { n.answer.Store(&do) }

// refuses has the next colo answer with a verdict.
func (n *nextColo) refuses(status int, v hop.Verdict) {
	n.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(hop.HeaderVerdict, v.String())
		w.Header().Set(hop.HeaderLoad, "free=0;held=3;limit=3;queued=5")
		w.Header().Set(hop.HeaderQueuedMS, "20")
		w.WriteHeader(status)
	})
}

// token returns the token of an entry that lets the request go on.
func (n *nextColo) token() hop.Token {
	token := hopFor("late")
	token.Wait, token.Onward = hop.WaitSpill, []hop.Stop{n.stop, {Colo: "iad", Node: "iad-1", Address: "127.0.0.1:1", Boot: "B"}}
	return token
}

// ask sends a request to the first colo, and returns its answer with the body.
func (n *nextColo) ask(token hop.Token) (*http.Response, string) {
	n.t.Helper()
	answer, err := n.first.send(n.t.Context(), token, `{"model":"late","messages":[]}`)
	if err != nil {
		n.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		n.t.Error(err)
	}
	return answer, string(body)
}

// visits returns the visits of an answer, each as COLO/NODE and its verdict.
func (n *nextColo) visits(answer *http.Response) (all []string) {
	n.t.Helper()
	visits, err := hop.ParseVisits(answer.Header.Get(hop.HeaderVisits))
	if err != nil {
		n.t.Error(err)
	}
	for _, v := range visits {
		all = append(all, hop.NodeName(v.Colo, v.Node)+" "+string(v.Verdict.Kind)+" "+v.Verdict.Reason)
	}
	return all
}

// expectEvents expects these final events of the first colo, each as kind, outcome and path, and that nothing of a request is left there.
func (n *nextColo) expectEvents(want ...string) {
	n.t.Helper()
	n.first.until("the requests to be gone", func() bool { return n.first.inflight.Count() == 0 })
	if errs := n.first.Check(); len(errs) > 0 {
		n.t.Error(errs)
	}
	var got []string
	for e, err := range journal.ReadDir(n.first.events) {
		if err != nil {
			n.t.Fatal(err)
		}
		if e.Phase == analytics.PhaseEnd {
			got = append(got, fmt.Sprintf("%s %s %v", e.Kind, e.Outcome, e.ColoPath))
		}
	}
	n.expect("events", got, want...)
}

func (n *nextColo) expect(what string, got []string, want ...string) {
	n.t.Helper()
	if !slices.Equal(got, want) {
		n.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

const noRoom = "ams/ams-1 ooc no_endpoint"

// A colo without capacity sends a request on with a token of its own, relays the answer, and logs one event that counts nothing in it.
func TestRequestGoesOn(t *testing.T) {
	n := startPair(t)
	n.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set(hop.HeaderLoad, "free=2;held=1;limit=3;queued=0")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	sent := n.token()
	sent.Waited = hop.Millis(time.Second)
	answer, body := n.ask(sent)
	if answer.StatusCode != 200 || body != `{"ok":true}` || answer.Header.Get(hop.HeaderServedBy) != "fra/fra-1" ||
		answer.Header.Get(hop.HeaderLoad) != "free=2;held=1;limit=3;queued=0" {
		t.Errorf("answer %d %s, %v", answer.StatusCode, body, answer.Header)
	}
	n.expect("visits", n.visits(answer), noRoom)
	got := forwardtest.Receive(t, "the request at the next colo", n.tokens)
	if !slices.Equal(got.Visited, []string{"ams/ams-1"}) || got.HopsLeft != 0 || len(got.Onward) != 1 || got.Onward[0].Colo != "iad" ||
		got.Waited < sent.Waited || got.ReturnProbability != 0.5 || got.Revision != 9 || got.RequestID != "r" || got.Account != "a" || got.Wait != hop.WaitSpill {
		t.Errorf("token %+v", got)
	}
	if left := time.Duration(got.Total); left > time.Minute-reservedForReturn || left < 50*time.Second {
		t.Errorf("%v of a minute are left", left)
	}
	n.expectEvents("forward completed [ams/ams-1]")
}

// A stream is relayed as it comes. If its client leaves, the next colo notices it, and the event says so.
func TestStreamThatGoesOnEndsWithItsClient(t *testing.T) {
	n := startPair(t)
	left := make(chan struct{}, 1)
	n.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	})
	ctx, leave := context.WithCancel(t.Context())
	answer, err := n.first.send(ctx, n.token(), `{"model":"late","messages":[],"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 64)
	if k, err := answer.Body.Read(piece); k == 0 {
		t.Errorf("no byte: %v", err)
	}
	leave()
	_ = answer.Body.Close()
	forwardtest.Receive(t, "the next colo to notice", left)
	n.expectEvents("forward client_gone [ams/ams-1]")
}

// If the next colo does not serve the request either, the entry learns what each has said. A server that is lost, or cannot be reached, is
// not tried again from here.
func TestVisitsOfARequestThatIsNotServed(t *testing.T) {
	n := startPair(t)
	f := func(name, visit string) {
		t.Helper()
		answer, _ := n.ask(n.token())
		n.expect(name, n.visits(answer), noRoom, visit)
		if v, err := hop.ParseVerdict(answer.Header.Get(hop.HeaderVerdict)); answer.StatusCode != 503 || err != nil || v.Reason != "no_endpoint" {
			t.Errorf("%s: its own verdict %d %+v, %v", name, answer.StatusCode, v, err)
		}
	}
	n.refuses(429, hop.Verdict{Kind: hop.VerdictOOC, Number: openai.NumberOutOfCapacity, Reason: "busy", MayWait: true})
	f("full", "fra/fra-1 ooc busy")
	n.refuses(502, hop.Verdict{Kind: hop.VerdictError, Number: openai.NumberEngineFailed, Reason: "engine_status"})
	f("failed", "fra/fra-1 error engine_status")
	n.refuses(503, hop.Verdict{Kind: hop.VerdictMoved, Number: openai.NumberUnavailable, Reason: "draining"})
	f("drains", "fra/fra-1 moved draining")
	n.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	f("lost", "fra/fra-1 lost colo_unreachable")
	n.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	f("rejects this colo", "fra/fra-1 unread no_server") // other keys, or clocks that are far apart: it has served nothing
	n.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(hop.HeaderReason, reasons.HopTokenReplayed) // by a sender whose copy may have been served
		w.WriteHeader(http.StatusForbidden)
	})
	f("says that it had the token before", "fra/fra-1 lost colo_unreachable")
	n.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge) })
	f("cannot read so large a head", "fra/fra-1 unread no_server")
	n.stop.Address = "127.0.0.1:1"
	f("not reached", "fra/fra-1 unread no_server")
	if len(n.tokens) != 7 {
		t.Errorf("the next colo was asked %d times, want once for each request", len(n.tokens))
	}
	const refused, failed = "forward refused [ams/ams-1]", "forward engine_error [ams/ams-1]"
	n.expectEvents(refused, failed, refused, failed, refused, failed, refused, refused)
}

// A colo that has no way to the next one finds that out once: later requests go back to the entry at once.
func TestNextColoThatIsSilent(t *testing.T) {
	t.Parallel()
	n := startPair(t)
	asked := make(chan struct{}, 10)
	n.stop.Address = forwardtest.ListenRaw(t, func(c net.Conn) {
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	})
	answer, _ := n.ask(n.token())
	n.expect("visits", n.visits(answer), noRoom, "fra/fra-1 lost colo_unreachable")
	before := len(asked)
	answer, _ = n.ask(n.token())
	n.expect("visits of the next request", n.visits(answer))
	if answer.StatusCode != 503 || before == 0 {
		t.Errorf("answer %d after %d connections", answer.StatusCode, before)
	}
	n.expectEvents("forward engine_error [ams/ams-1]")
}

// A request that could go nowhere else stays at the next colo while that is silent, and any other is given up.
func TestRequestWithoutAlternativeStays(t *testing.T) {
	t.Parallel()
	n := startPairBy(t, func(c *Config) {
		c.Liveness = liveness.Timings{
			Sweep: 10 * time.Millisecond, ProbeAfter: 50 * time.Millisecond, GiveUpAfter: 100 * time.Millisecond, ProbeInterval: time.Hour, ProbeTimeout: 50 * time.Millisecond,
		}
	})
	n.stop.Address = forwardtest.ListenRaw(t, func(c net.Conn) {
		if r, err := forwardtest.ReadRequest(bufio.NewReader(c)); err != nil || r.Method != http.MethodPost {
			_, _ = io.Copy(io.Discard, c) // a probe
			return
		}
		time.Sleep(300 * time.Millisecond)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"+hop.HeaderAttempts+": 1\r\n\r\n{}")
	})
	token := n.token()
	token.Onward = token.Onward[:1]
	token.Onward[0].NoAlternative = true
	if answer, body := n.ask(token); answer.StatusCode != 200 || body != "{}" {
		t.Errorf("without an alternative: %d %s, visits %q", answer.StatusCode, body, n.visits(answer))
	}
	token.Onward[0].NoAlternative = false
	answer, _ := n.ask(token)
	n.expect("visits with an alternative", n.visits(answer), noRoom, "fra/fra-1 lost colo_unreachable")
}

// Room in the queue of this colo is an alternative to all stops, for a request that may come back to wait.
func TestQueueOfThisColoIsAnAlternative(t *testing.T) {
	f := func(wait hop.Wait, mayWait, want bool) {
		t.Helper()
		c := call{token: &hop.Token{Wait: wait, Onward: []hop.Stop{{NoAlternative: true}, {NoAlternative: true}}}}
		refused := peer.Answer{Verdict: hop.Verdict{Kind: hop.VerdictOOC, MayWait: mayWait}}
		if got, next := c.mayGiveUp(&refused), stopsAfterNext(c.token, refused.Verdict); got != want || len(next) != 1 || next[0].NoAlternative == want {
			t.Errorf("%s, may wait: %v: gives up: %v, then stops %+v", wait, mayWait, got, next)
		}
		if !c.token.Onward[1].NoAlternative {
			t.Error("its own token was changed")
		}
	}
	f(hop.WaitSpill, true, true)
	f(hop.WaitSpill, false, false)
	f(hop.WaitNever, true, false)
}

// The next colo gets a token that it can read, by what the entry knows of it. An older entry says nothing.
func TestTokenByProtocolOfTheStop(t *testing.T) {
	n := startPair(t)
	n.refuses(429, hop.Verdict{Kind: hop.VerdictOOC})
	for protocol, version := range map[int]string{0: "v2.", hop.NodeNamesProtocol: "v2.", hop.BinaryTokenProtocol: "v3."} {
		n.stop.Protocol = protocol
		_, _ = n.ask(n.token())
		<-n.tokens
		if token := *n.signed.Load(); !strings.HasPrefix(token, version) {
			t.Errorf("a stop of protocol %d gets a token %.3s, want %s", protocol, token, version)
		}
	}
}

// The home that the next colo names is asked, once.
func TestRequestThatGoesOnIsMovedOnce(t *testing.T) {
	n := startPair(t)
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v hop.Verified
		err := n.first.keys.VerifyHead(&v, []byte(r.Header.Get(hop.HeaderToken)), &hop.Binding{
			Audience: "fra/fra-2", Method: r.Method, Target: r.URL.Path, AppendHeader: valuesOf(r.Header),
		}, time.Now())
		if err != nil || v.Token.Revision != 12 || !v.Token.Rejoin || time.Duration(v.Token.Waited) < 20*time.Millisecond {
			t.Errorf("token at the home: %+v, %v", v.Token, err)
		}
		w.Header().Set(hop.HeaderVerdict, hop.Verdict{Kind: hop.VerdictMoved, Number: openai.NumberUnavailable, To: "fra-1", Address: n.stop.Address, Revision: 13}.String())
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(home.Close)
	n.refuses(503, hop.Verdict{
		Kind: hop.VerdictMoved, Number: openai.NumberUnavailable, To: "fra-2", Address: strings.TrimPrefix(home.URL, "http://"), Boot: "B2", Protocol: hop.NodeNamesProtocol, Revision: 12, Waited: true,
	})
	answer, _ := n.ask(n.token())
	n.expect("visits", n.visits(answer), noRoom, "fra/fra-2 moved ")
	if len(n.tokens) != 1 {
		t.Errorf("the next colo was asked %d times", len(n.tokens))
	}
	n.expectEvents("forward refused [ams/ams-1]")
}

// If the home that the next colo names gets lost or cannot be reached, the entry learns for how long the request has waited before, and that it
// had a place in the queue.
func TestQueueTimeBeforeALostHome(t *testing.T) {
	n := startPair(t)
	f := func(home string, want hop.VerdictKind) {
		t.Helper()
		n.refuses(503, hop.Verdict{
			Kind: hop.VerdictMoved, Number: openai.NumberUnavailable, To: "fra-2", Address: home, Boot: "B2", Protocol: hop.NodeNamesProtocol, Revision: 12, Waited: true,
		})
		answer, _ := n.ask(n.token())
		visits, err := hop.ParseVisits(answer.Header.Get(hop.HeaderVisits))
		if err != nil || len(visits) != 2 {
			t.Fatalf("visits %+v, %v", visits, err)
		}
		if v := visits[1]; v.Node != "fra-2" || v.Verdict.Kind != want || v.Queued != 20*time.Millisecond || !v.Verdict.Waited {
			t.Errorf("%s: %+v", want, v)
		}
	}
	lost := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(lost.Close)
	f(strings.TrimPrefix(lost.URL, "http://"), hop.VerdictLost)
	f("127.0.0.1:1", hop.VerdictUnread)
}

// A request stays here if the colo has not refused it for want of capacity, or the token does not let it go on.
func TestRequestsThatDoNotGoOn(t *testing.T) {
	n := startPair(t)
	n.refuses(500, hop.Verdict{Kind: hop.VerdictError})
	f := func(name string, change func(*hop.Token)) {
		t.Helper()
		token := n.token()
		change(&token)
		answer, _ := n.ask(token)
		if visits := n.visits(answer); visits != nil || len(n.tokens) > 0 {
			t.Errorf("%s: went on: %v", name, visits)
		}
	}
	f("no stops", func(h *hop.Token) { h.Onward = nil })
	f("no hops left", func(h *hop.Token) { h.HopsLeft = 0 })
	f("no time left", func(h *hop.Token) { h.Total = hop.Millis(reservedForReturn) })
	f("no time left for the first byte", func(h *hop.Token) { h.FirstByte = hop.Millis(reservedForReturn) })
	f("far away", func(h *hop.Token) { h.Onward[0].RoundTrip = h.Total/2 + 1 })
	f("unknown model", func(h *hop.Token) { h.Model, h.Total = "gone", hop.Millis(2*tableSkew) })
	n.expectEvents()
}

// The last colo of a plan learns the shortest wait that the others expect.
func TestLastStopKnowsWhatToBeat(t *testing.T) {
	f := func(below, own, want time.Duration, last, mayWait bool) {
		t.Helper()
		token := hop.Token{Onward: []hop.Stop{{Last: last}}, WaitBelow: hop.Millis(below)}
		if got := waitBelow(&token, hop.Verdict{MayWait: mayWait, Expected: own}); time.Duration(got) != want {
			t.Errorf("below %v, own %v: %v, want %v", below, own, time.Duration(got), want)
		}
	}
	f(0, 300, 300, true, true)
	f(200, 300, 200, true, true)
	f(400, 300, 300, true, true)
	f(400, 300, 400, true, false)
	f(400, 0, 400, true, true)
	f(0, 300, 0, false, true)
}

// A request that a shutdown ends on its way has a verdict, as one in an engine has: the engine of the next colo may have begun to generate.
func TestShutdownEndsRequestThatGoesOn(t *testing.T) {
	n := startPair(t)
	n.answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	n.first.down = true
	ended := make(chan error, 1)
	go func() {
		forwardtest.Receive(t, "the request at the next colo", n.tokens)
		now, stop := context.WithCancel(context.Background())
		stop()
		ended <- n.first.Shutdown(now, server.DrainTimings{})
	}()
	answer, _ := n.ask(n.token())
	n.expect("visits", n.visits(answer), noRoom, "fra/fra-1 error draining")
	if visits, _ := hop.ParseVisits(answer.Header.Get(hop.HeaderVisits)); len(visits) != 2 || !visits[1].Verdict.Final {
		t.Errorf("visits %+v: want that no other attempt follows", visits)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	n.expectEvents("forward drained [ams/ams-1]")
}

// A request goes on to the home that the next colo names only if no engine there has seen the request, and the home knows servers by COLO/NODE.
// The time in the queue before it was moved counts, too.
func TestMovesThatAreLeftToTheEntry(t *testing.T) {
	n := startPair(t)
	asked := make(chan struct{}, 10)
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set(hop.HeaderQueuedMS, "5")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(home.Close)
	f := func(name string, attempts string, protocol int, want ...string) *http.Response {
		t.Helper()
		n.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(hop.HeaderVerdict, hop.Verdict{
				Kind: hop.VerdictMoved, Number: openai.NumberUnavailable, To: "fra-2", Address: strings.TrimPrefix(home.URL, "http://"), Boot: "B2", Protocol: protocol, Revision: 12,
			}.String())
			w.Header().Set(hop.HeaderAttempts, attempts)
			w.Header().Set(hop.HeaderQueuedMS, "20")
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		answer, _ := n.ask(n.token())
		n.expect(name, n.visits(answer), want...)
		return answer
	}
	if a := f("followed", "0", hop.NodeNamesProtocol, noRoom); a.Header.Get(hop.HeaderQueuedMS) != "25" || a.Header.Get(hop.HeaderServedBy) != "fra/fra-2" {
		t.Errorf("followed: %v", a.Header)
	}
	f("an engine has failed", "1", hop.NodeNamesProtocol, noRoom, "fra/fra-1 moved ")
	f("an older home", "0", hop.NodeNamesProtocol-1, noRoom, "fra/fra-1 moved ")
	if len(asked) != 1 {
		t.Errorf("the home was asked %d times, want once", len(asked))
	}
}

// The time that the next colo took is not that of this one, which an entry in the same process would believe.
func TestAnswerFromNextColoHasNoDistance(t *testing.T) {
	n := startPair(t)
	n.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set(hop.HeaderTook, "1")
		_, _ = io.WriteString(w, "{}")
	})
	answer, err := n.first.Do(t.Context(), &peer.Request{Token: n.token(), Route: chatRoute(t), Body: []byte(`{"model":"late","messages":[]}`)})
	if err != nil || answer.Response == nil {
		t.Fatalf("%+v, %v", answer, err)
	}
	answer.Close()
	if roundTrip, measured := answer.RoundTrip(); measured {
		t.Errorf("measured %v", roundTrip)
	}
}

// A request that no queue has let in has not waited, not even for a microsecond: only by that does an entry know that a flood has ended.
func TestRefusedRequestHasNotWaited(t *testing.T) {
	n := startPair(t)
	token := n.token()
	token.Onward = nil
	answer, err := n.first.Do(t.Context(), &peer.Request{Token: token, Route: chatRoute(t), Body: []byte(`{"model":"late","messages":[]}`)})
	if err != nil || answer.Verdict.Kind != hop.VerdictOOC || answer.Queued != 0 {
		t.Errorf("%+v, %v: waited %v", answer.Verdict, err, answer.Queued)
	}
}

func chatRoute(t *testing.T) openai.Route {
	t.Helper()
	route, e := openai.ParseRoute([]byte("POST"), []byte("/v1/chat/completions"))
	if e != nil {
		t.Fatal(e)
	}
	return route
}
