package colo

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/homes"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// homeServer is a server of a colo of several. One of them is the home of its pools.
type homeServer struct {
	*testServer
	at   atomic.Pointer[Home]
	asks atomic.Int64 // how often the home was looked up
}

// elsewhere is the home of pools that are another server's.
func elsewhere() Home {
	return Home{Node: "ams-2", Address: "10.0.0.2:8443", Boot: "BOOT", Protocol: 4, Revision: 1 << 40, Known: 1 << 40}
}

func startHomeServer(t *testing.T, h Home) *homeServer {
	t.Helper()
	s := &homeServer{}
	s.at.Store(&h)
	s.testServer = startServerBy(t, func(srv *Server) {
		srv.config.Homes = func(string) Home {
			s.asks.Add(1)
			return *s.at.Load()
		}
	})
	s.apply(talkAndChat)
	return s
}

// move makes another server the home of all pools.
func (s *homeServer) move() {
	h := elsewhere()
	s.at.Store(&h)
	s.pools.SetGrants(&homes.Grants{Homes: map[string]string{"p": h.Node, "mute": h.Node}})
}

// homeToken is the token of an entry that knows of several servers.
func homeToken(model string) hop.Token {
	token := hopFor(model)
	token.Revision = 7
	return token
}

// verdictOf sends a chat request, and returns its status and its verdict, which is empty if it was served.
func (s *homeServer) verdictOf(token hop.Token) (int, hop.Verdict) {
	answer, err := s.send(s.t.Context(), token, `{"model":"x","max_tokens":1,"messages":[]}`)
	if err != nil {
		s.t.Error(err)
		return 0, hop.Verdict{}
	}
	defer answer.Body.Close()
	value := answer.Header.Get(hop.HeaderVerdict)
	if value == "" {
		return answer.StatusCode, hop.Verdict{}
	}
	v, err := hop.ParseVerdict(value)
	if err != nil {
		s.t.Error(err)
	}
	if load := answer.Header.Get(hop.HeaderLoad); (load == "") != (v.To != "") {
		s.t.Errorf("verdict %q, load %q: only the home knows it", value, load)
	}
	return answer.StatusCode, v
}

// moved is the verdict on a request of a pool that is elsewhere, with what differs.
func moved(change func(*hop.Verdict)) hop.Verdict {
	v := hop.Verdict{
		Kind: hop.VerdictMoved, Reason: reasons.Moved, Number: openai.NumberUnavailable, RetryAfter: time.Second,
		To: "ams-2", Address: "10.0.0.2:8443", Boot: "BOOT", Protocol: 4, Revision: 1 << 40,
	}
	change(&v)
	return v
}

func (s *homeServer) wantVerdict(status int, got, want hop.Verdict) {
	s.t.Helper()
	if want.Reason == reasons.Draining || want.Waited { // computed by the pool
		got.RetryAfter, got.Expected, want.RetryAfter = 0, 0, 0
	}
	if status != http.StatusServiceUnavailable && want.Number == openai.NumberUnavailable || got != want {
		s.t.Errorf("answer %d, verdict %+v, want %+v", status, got, want)
	}
}

// A server that is not the home of a request's pool says who is, before it asks for a permit: also for a session, and for a request that
// wants progress.
func TestRequestOfAnotherHome(t *testing.T) {
	s := startHomeServer(t, elsewhere())
	status, got := s.verdictOf(homeToken("late"))
	s.wantVerdict(status, got, moved(func(*hop.Verdict) {}))
	wants := homeToken("late")
	wants.WantsProgress = true
	status, got = s.verdictOf(wants)
	s.wantVerdict(status, got, moved(func(*hop.Verdict) {}))
	again := homeToken("late")
	again.Rejoin = true
	status, got = s.verdictOf(again)
	s.wantVerdict(status, got, moved(func(v *hop.Verdict) { v.Waited = true }))

	token, err := s.keys.Sign(new(homeToken("voice")), hop.NewSequence(s.Boot()), &toSelf, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, answer, err := s.dialWith(token)
	if err == nil || answer == nil {
		t.Fatalf("a session was opened: %v", err)
	}
	got, _ = hop.ParseVerdict(answer.Header.Get(hop.HeaderVerdict))
	s.wantVerdict(answer.StatusCode, got, moved(func(*hop.Verdict) {}))

	if status, verdict := s.chat("late"); status != 503 || verdict != "moved;reason=moved;number=50301;retry_after_ms=1000" {
		t.Errorf("to an entry of an older version: %d %q", status, verdict)
	}
	s.expectEvents(0)
	if n := s.granted.Load(); n != 0 {
		t.Errorf("%d permits were granted", n)
	}
}

// A server serves what is its own, and what no server is the home of.
func TestRequestAtItsHome(t *testing.T) {
	s := startHomeServer(t, Home{Node: "ams-1", Here: true})
	for _, h := range []Home{{Node: "ams-1", Here: true}, {}} {
		s.at.Store(&h)
		if status, verdict := s.verdictOf(homeToken("late")); status != 200 {
			t.Errorf("home %+v: %d, %+v", h, status, verdict)
		}
	}
}

// A request whose sender knows newer servers waits until this server knows them too.
func TestRequestWaitsForNewerServers(t *testing.T) {
	s := startHomeServer(t, elsewhere())
	newer := homeToken("late")
	newer.Revision = 1<<40 + 1
	type answer struct {
		status  int
		verdict hop.Verdict
	}
	send := func(then Home) answer {
		old := elsewhere()
		s.at.Store(&old)
		asked := s.asks.Load()
		answers := make(chan answer, 1)
		go func() {
			status, verdict := s.verdictOf(newer)
			answers <- answer{status, verdict}
		}()
		s.until("the request to wait", func() bool { return s.asks.Load() > asked+1 })
		if len(answers) != 0 {
			t.Error("it did not wait")
		}
		s.at.Store(&then)
		return <-answers
	}
	if got := send(Home{Node: "ams-1", Here: true, Known: newer.Revision}); got.status != 200 {
		t.Errorf("the home is here: %+v", got)
	}
	got := send(Home{Node: "ams-3", Address: "ams-3:8443", Boot: "B", Protocol: 4, Revision: newer.Revision, Known: newer.Revision})
	s.wantVerdict(got.status, got.verdict, moved(func(v *hop.Verdict) {
		v.To, v.Address, v.Boot, v.Revision = "ams-3", "ams-3:8443", "B", newer.Revision
	}))
}

// It does not wait for longer than a second after its arrival, nor than its client waits.
func TestRequestWaitsForNewerServersInTime(t *testing.T) {
	s := startHomeServer(t, elsewhere())
	pool, _ := s.pools.Pool("p")
	wait := func(change func(*call)) *refusal {
		in := s.inflight.Begin()
		defer in.Close()
		token := homeToken("late")
		token.Revision = 1<<40 + 1
		c := s.newCall(in, &peer.Request{Token: token})
		defer c.close()
		c.pool = pool
		change(c)
		return c.reachHome()
	}
	if r := wait(func(c *call) { c.arrived = c.arrived.Add(-tableSkew) }); r == nil || r.verdict.Kind != hop.VerdictMoved {
		t.Errorf("a second after the arrival: %+v", r)
	}
	if r := wait(func(c *call) { c.deadline = c.arrived.Add(homePoll) }); r == nil || r.verdict.Reason != reasons.TotalTimeout || !r.verdict.Final {
		t.Errorf("without time: %+v", r)
	}
	if r := wait(func(c *call) { c.firstByteDeadline = c.arrived.Add(homePoll) }); r == nil || r.verdict.Reason != reasons.FirstByteTimeout {
		t.Errorf("without time for the first byte: %+v", r)
	}
	if r := wait(func(c *call) { c.Cancel(server.ErrClientGone) }); r == nil || !errors.Is(r.gone, server.ErrClientGone) {
		t.Errorf("without a client: %+v", r)
	}
	if r := wait(func(c *call) { c.Cancel(errDrained) }); r == nil || r.verdict.Kind != hop.VerdictMoved || r.verdict.Reason != reasons.Draining {
		t.Errorf("at the end of a drain: %+v", r)
	}
}

// If the home did not answer the sender, the request asks here, and waits until this server may serve it or the home answers again.
func TestStandIn(t *testing.T) {
	s := startHomeServer(t, elsewhere())
	s.move()
	token := homeToken("late")
	token.Unanswered = []string{"ams-3"}
	status, got := s.verdictOf(token)
	s.wantVerdict(status, got, moved(func(*hop.Verdict) {}))

	token.Unanswered = []string{"ams-3", "ams-2"}
	verdicts := make(chan hop.Verdict, 1)
	stand := func() {
		_, v := s.verdictOf(token)
		verdicts <- v
	}
	go stand()
	s.until("the request to stand in line", func() bool { return s.pools.StandIns("p") == 1 })
	s.pools.RefuseStandIns("p")
	s.wantVerdict(503, <-verdicts, moved(func(v *hop.Verdict) { v.Waited = true }))

	go stand()
	s.until("the request to stand in line", func() bool { return s.pools.StandIns("p") == 1 })
	s.at.Store(&Home{Node: "ams-1", Here: true})
	s.pools.SetGrants(nil)
	if v := <-verdicts; v != (hop.Verdict{}) {
		t.Errorf("at its home: %+v", v)
	}
}

// Requests that wait move with their pool and keep their places; what runs stays.
func TestWaitersMove(t *testing.T) {
	s := startHomeServer(t, Home{Node: "ams-1", Here: true})
	session := s.open("voice")
	verdicts := make(chan hop.Verdict, 2)
	queue := homeToken("late")
	queue.WantsProgress = true
	for _, token := range []hop.Token{homeToken("late"), queue} {
		go func() {
			_, v := s.verdictOf(token)
			verdicts <- v
		}()
	}
	s.until("requests to wait", func() bool { return s.pool("p").Queued == 2 })
	s.move()
	for range 2 {
		s.wantVerdict(503, <-verdicts, moved(func(v *hop.Verdict) { v.Waited = true }))
	}
	if n := s.held(); n != 1 {
		t.Errorf("%d permits are held, want that of the session", n)
	}
	session.Close()
	s.until("the session to end", func() bool { return s.held() == 0 && s.inflight.Count() == 0 })
	if got := s.outcomes(); !slices.Equal(got, []analytics.Outcome{analytics.OutcomeClientGone}) {
		t.Errorf("the events say %s, want that of the session only", got)
	}
}

// A request that came with a place in the queue of the last home has it here, though there is no room.
func TestMovedRequestKeepsItsPlace(t *testing.T) {
	s := startHomeServer(t, Home{Node: "ams-1", Here: true})
	s.apply(talkAndChat + "---\nkey: pools/p\nqueue: {limit: 0}\n")
	session := s.open("voice")
	if status, v := s.verdictOf(homeToken("late")); status != 429 || v.Reason != string(permits.QueueFull) {
		t.Errorf("a request: %d, %+v", status, v)
	}
	token := homeToken("late")
	token.Rejoin = true
	statuses := make(chan int, 1)
	go func() {
		status, _ := s.verdictOf(token)
		statuses <- status
	}()
	s.until("the request to wait", func() bool { return s.pool("p").Queued == 1 })
	session.Close()
	if status := <-statuses; status != 200 {
		t.Errorf("answered with %d", status)
	}
}

// A pool may refuse requests for a moment though the server is its home, or the other way round. Neither spins, and neither serves a
// request twice.
func TestPoolAndServerDisagree(t *testing.T) {
	s := startHomeServer(t, Home{Node: "ams-1", Here: true})
	s.pools.SetGrants(&homes.Grants{Homes: map[string]string{"p": "ams-2"}})
	asked, statuses := s.asks.Load(), make(chan int, 1)
	go func() {
		status, _ := s.verdictOf(homeToken("late"))
		statuses <- status
	}()
	s.until("the request to ask again", func() bool { return s.asks.Load() > asked+4 })
	s.pools.SetGrants(nil)
	if status := <-statuses; status != 200 {
		t.Errorf("answered with %d", status)
	}

	c := &call{server: s.Server, refusedSince: time.Now().Add(-tableSkew)}
	in := s.inflight.Begin()
	defer in.Close()
	c.Request, c.pool = in, nil
	c.pool, _ = s.pools.Pool("p")
	if c.mayAskAgain(&permits.Refusal{Reason: permits.Moved}) {
		t.Error("a pool that refuses requests for a second is asked again")
	}
	if c.mayAskAgain(&permits.Refusal{Reason: permits.QueueFull}) || c.mayAskAgain(context.Canceled) {
		t.Error("a request that was refused for another reason asks again")
	}
}

// A draining server says that it drains, and where the waiting requests of its pools go on.
func TestDrainNamesTheHome(t *testing.T) {
	s := startHomeServer(t, Home{Node: "ams-1", Here: true})
	session := s.open("voice")
	verdicts := make(chan hop.Verdict, 1)
	go func() {
		_, v := s.verdictOf(homeToken("late"))
		verdicts <- v
	}()
	s.until("a request to wait", func() bool { return s.pool("p").Queued == 1 })
	h := elsewhere()
	s.at.Store(&h)
	s.Drain()
	s.wantVerdict(503, <-verdicts, moved(func(v *hop.Verdict) { v.Reason, v.Waited, v.Drains = reasons.Draining, true, true }))
	session.Close()
	s.until("the session to end", func() bool { return s.held() == 0 })
	status, got := s.verdictOf(homeToken("late"))
	s.wantVerdict(status, got, moved(func(v *hop.Verdict) { v.Drains = true }))

	s.refuseCalls()
	route, _ := openai.ParseRoute([]byte("POST"), []byte("/v1/chat/completions"))
	answer, err := s.Do(t.Context(), &peer.Request{Token: homeToken("late"), Route: route})
	if err != nil || answer.Verdict.To != "ams-2" || answer.Verdict.Reason != reasons.Draining || !answer.Verdict.Drains || answer.Error.Status != 503 {
		t.Errorf("at the end of the drain: %+v, %v", answer, err)
	}
}

// A request that fails and finds its pool elsewhere says all that is known of its attempts, and its client learns of the failure unless
// another server serves it.
func TestPoolMovesBeforeARetry(t *testing.T) {
	s := startHomeServer(t, Home{Node: "ams-1", Here: true})
	s.engine(func(w http.ResponseWriter, _ *http.Request) {
		s.move()
		w.WriteHeader(http.StatusInternalServerError)
	})
	token := homeToken("late")
	token.RetriesLeft, token.EndpointsFailed = 2, 0
	status, got := s.verdictOf(token)
	s.wantVerdict(status, got, moved(func(v *hop.Verdict) {
		v.Reason, v.Number, v.EndpointsFailed, v.Waited = reasons.EngineStatus, openai.NumberEngineFailed, 1, true
	}))
	if status != http.StatusBadGateway {
		t.Errorf("answered with %d", status)
	}
	if got := s.outcomes(); !slices.Equal(got, []analytics.Outcome{analytics.OutcomeEngineError}) {
		t.Errorf("the events say %s", got)
	}
}

// A permit that was withdrawn before it was used has its event, and the request moves as one of which nothing was sent.
func TestPoolMovesBeforeTheRequestIsSent(t *testing.T) {
	s := startHomeServer(t, Home{Node: "ams-1", Here: true})
	read := make(chan struct{})
	s.credentials.readFile = func(string) ([]byte, error) {
		<-read
		return []byte("secret"), nil
	}
	s.apply(lateModel + "credential: file:slow\n")
	verdicts := make(chan hop.Verdict, 1)
	go func() {
		_, v := s.verdictOf(homeToken("late"))
		verdicts <- v
	}()
	s.until("the grant to be logged", func() bool { return s.config.Log.Stats().OpenBegins == 1 })
	s.SetFence(time.Time{})
	s.move()
	close(read)
	s.wantVerdict(503, <-verdicts, moved(func(v *hop.Verdict) { v.Unsent, v.Waited = true, true }))
	s.until("the request to be gone", func() bool { return s.inflight.Count() == 0 && s.held() == 0 })
	if got := s.outcomes(); !slices.Equal(got, []analytics.Outcome{analytics.OutcomeMoved}) {
		t.Errorf("the events say %s", got)
	}
	s.SetFence(time.Now().Add(time.Hour))
}

// No request waits at a server that is not the home of its pool, however the home and the requests change.
func TestNoneWaitsAway(t *testing.T) {
	s := startHomeServer(t, Home{Node: "ams-1", Here: true})
	session := s.open("voice")
	defer session.Close()
	verdicts := make(chan string, 100)
	const requests = 40
	go func() {
		for range requests {
			go func() {
				_, v := s.verdictOf(homeToken("late"))
				verdicts <- v.Reason
			}()
		}
	}()
	for range 5 {
		h := Home{Node: "ams-1", Here: true}
		s.at.Store(&h)
		s.pools.SetGrants(nil)
		s.until("a request to wait, or none to be left", func() bool { return s.pool("p").Queued > 0 || len(verdicts) == requests })
		s.move()
	}
	for range requests {
		if reason := <-verdicts; reason != reasons.Moved {
			t.Errorf("refused with %q", reason)
		}
	}
	if n := s.pool("p").Queued; n != 0 {
		t.Errorf("%d requests wait", n)
	}
	if wrong := s.Check(); len(wrong) > 0 {
		t.Error(wrong)
	}
}
