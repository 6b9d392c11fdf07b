package entry

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
	"colonnade/internal/testkit"
)

// farColo is a stub of a colo that is away: it answers late, and says that it took less.
type farColo struct {
	away     time.Duration
	says     atomic.Value // a string, in the header; none = "0"
	cut      atomic.Bool
	fails    atomic.Bool // its engine does
	requests atomic.Int64
	pings    atomic.Int64
	tokens   chan hop.Token // of requests; nil = they are not kept
}

func (f *farColo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	count := &f.requests
	if r.URL.Path == hop.PathAlive {
		count = &f.pings
	}
	count.Add(1)
	if f.cut.Load() {
		cut(hop.Token{}, w)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	time.Sleep(f.away)
	says, ok := f.says.Load().(string)
	if !ok {
		says = "0"
	}
	w.Header().Set(hop.HeaderTook, says)
	if r.URL.Path == hop.PathAlive {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if f.tokens != nil {
		f.tokens <- tokenOf(r)
	}
	w.Header().Set(hop.HeaderAttempts, "1")
	if f.fails.Load() {
		w.Header().Set(hop.HeaderVerdict, hop.Verdict{Kind: hop.VerdictError, Number: 50201, Reason: "engine_failed"}.String())
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_, _ = io.WriteString(w, `{}`)
}

// tokenOf returns the hop token of a request, which is not verified.
func tokenOf(r *http.Request) (token hop.Token) {
	_, payload, _ := strings.Cut(r.Header.Get(hop.HeaderToken), ".")
	payload, _, _ = strings.Cut(payload, ".")
	text, _ := base64.RawURLEncoding.DecodeString(payload)
	_ = json.Unmarshal(text, &token)
	return token
}

// observedColo returns what the entry has observed of a colo.
func observedColo(t testing.TB, e *Entry, name string) ObservedColo {
	t.Helper()
	for _, c := range e.Colos() {
		if c.Colo == name {
			return c
		}
	}
	t.Fatalf("nothing is observed of %s", name)
	return ObservedColo{}
}

// The distance of a colo is that of its answers, without the time that they took there. It stays as it was when a colo says nothing, no
// number, or more than was measured.
func TestDistanceOfAnswers(t *testing.T) {
	t.Parallel()
	const away = 20 * time.Millisecond
	ams := &farColo{away: away}
	began := time.Now()
	url, e := startEntryWith(t, Config{Table: tableFunc(tableOf(t, "key: models/m\n"+colo(t, "ams", ams.ServeHTTP)))}, t.TempDir())
	if c := observedColo(t, e, "ams"); c.Measured || c.RoundTripMillis != 100 || c.MeasuredAt != nil {
		t.Errorf("before the first answer: %+v", c)
	}
	for _, says := range []string{"soon", "-1", "3600000000"} {
		ams.says.Store(says)
		if status, answer := chat(t, url, request); status != 200 {
			t.Fatalf("answer %d %s", status, answer)
		}
		if c := observedColo(t, e, "ams"); c.Measured {
			t.Errorf("after an answer that says %q: %+v", says, c)
		}
	}
	ams.says.Store("0")
	if status, answer := chat(t, url, request); status != 200 {
		t.Fatalf("answer %d %s", status, answer)
	}
	c := observedColo(t, e, "ams")
	if !c.Measured || c.RoundTripMillis < 20 || c.MeasuredAt == nil {
		t.Errorf("after an answer: %+v", c)
	}
	// An entry that has had no answer for 100 ms asks whether a colo believes it, on a slow machine also this one.
	if n := ams.pings.Load(); n != 0 && time.Since(began) < 8*away {
		t.Errorf("%d pings although no plan goes by distance", n)
	}
}

// farBehindProxy starts an entry and a colo that is so far away that a round trip takes a time, and whose engine takes another.
func farBehindProxy(t testing.TB, roundTrip, engine time.Duration) (url string, e *Entry) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(engine)
		w.Header().Set(hop.HeaderTook, hop.FormatTook(time.Since(began)))
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(server.Close)
	proxy := testkit.NewProxy(t, strings.TrimPrefix(server.URL, "http://"))
	proxy.Delay(roundTrip / 2)
	documents := fmt.Sprintf("key: models/m\n---\nkey: colos/ams\n---\nkey: servers/ams/ams-1\naddress: %s\nboot: x\n", proxy.Address)
	return startEntryWith(t, Config{Table: tableFunc(tableOf(t, documents))}, t.TempDir())
}

// The distance of a colo behind a slow network is a round trip, whatever its engines take.
func TestDistanceOverASlowNetwork(t *testing.T) {
	t.Parallel()
	const roundTrip, engine = 20 * time.Millisecond, 150 * time.Millisecond
	url, e := farBehindProxy(t, roundTrip, engine)
	testkit.WaitFor(t, "a round trip without the engine's time", func() bool { // the least counts, also of a busy machine
		sends(t, url, 2)
		c := observedColo(t, e, "ams")
		return c.Measured && c.RoundTripMillis < float64(engine.Milliseconds())
	})
	if c := observedColo(t, e, "ams"); c.RoundTripMillis < float64(roundTrip.Milliseconds()) {
		t.Errorf("observed %+v, want a round trip of at least %s", c, roundTrip)
	}
}

// Colos that a plan by latency has not been answered by are pinged. Then the nearest is asked first.
func TestColosAreMeasuredForPlans(t *testing.T) {
	t.Parallel()
	ams, fra := &farColo{away: 30 * time.Millisecond}, &farColo{}
	documents := "key: models/m\nrouting: {algorithm: latency}\n" + colo(t, "ams", ams.ServeHTTP) + colo(t, "fra", fra.ServeHTTP)
	url, e := startEntryWith(t, Config{Table: tableFunc(tableOf(t, documents))}, t.TempDir())
	sends(t, url, 1)
	testkit.WaitFor(t, "both colos to be measured", func() bool {
		return observedColo(t, e, "ams").Measured && observedColo(t, e, "fra").Measured
	})
	nearest := fra
	if a, f := observedColo(t, e, "ams"), observedColo(t, e, "fra"); a.RoundTripMillis < 30 {
		t.Errorf("%+v, %+v", a, f)
	} else if a.RoundTripMillis < f.RoundTripMillis { // on a machine that is busy
		nearest = ams
	}
	asked, other := ams, fra
	if fra.requests.Load() > 0 {
		asked, other = fra, ams
	}
	if asked.pings.Load() > 1 || other.pings.Load() == 0 { // one, if the answer takes longer than until the next round of pings
		t.Errorf("%d pings of the colo that got the request, and %d of the other, want those", asked.pings.Load(), other.pings.Load())
	}
	before := nearest.requests.Load()
	sends(t, url, 3)
	if n := nearest.requests.Load() - before; n != 3 {
		t.Errorf("%d of three requests at the nearest colo", n)
	}
}

// twoFarColos is an entry that asks ams before fra.
func twoFarColos(t *testing.T) (url string, e *Entry, ams, fra *farColo) {
	t.Helper()
	ams, fra = &farColo{}, &farColo{}
	documents := "key: models/m\nretry: {errors: 9}\nrouting: {steps: [{colos: [ams, fra]}]}\n" + colo(t, "ams", ams.ServeHTTP) + colo(t, "fra", fra.ServeHTTP)
	url, e = startEntryWith(t, Config{Table: tableFunc(tableOf(t, documents))}, t.TempDir())
	return url, e, ams, fra
}

// sends sends requests, each of which must be served.
func sends(t *testing.T, url string, n int) {
	t.Helper()
	for range n {
		if status, answer := chat(t, url, request); status != 200 {
			t.Fatalf("answer %d %s", status, answer)
		}
	}
}

// After three requests in a row that found no server, a colo stands last: requests go elsewhere at once. A ping brings it back.
func TestUnreachedColo(t *testing.T) {
	t.Parallel()
	url, e, ams, fra := twoFarColos(t)
	sends(t, url, 1)
	ams.cut.Store(true)
	sends(t, url, 5)
	if a, f := ams.requests.Load(), fra.requests.Load(); a != 1+unreachedAfter || f != 5 {
		t.Errorf("%d requests at the colo that is not reached, %d at the other", a, f)
	}
	c := observedColo(t, e, "ams")
	if !c.Unreached || c.Failures != unreachedAfter || c.FailingSince == nil || c.NextPing == nil || c.NextPing.Sub(*c.FailingSince) > 3*time.Second {
		t.Errorf("observed %+v", c)
	}
	pingNow(e, "ams")
	testkit.WaitFor(t, "a ping that fails", func() bool { return observedColo(t, e, "ams").FailedPings > 0 })
	if c := observedColo(t, e, "ams"); !c.Unreached || ams.pings.Load() == 0 {
		t.Errorf("after %d pings: %+v", ams.pings.Load(), c)
	}
	ams.cut.Store(false)
	pingNow(e, "ams")
	testkit.WaitFor(t, "a ping to be answered", func() bool { return !observedColo(t, e, "ams").Unreached })
	sends(t, url, 1)
	if n := ams.requests.Load(); n != 2+unreachedAfter {
		t.Errorf("it has got %d requests when it is back", n)
	}
}

// pingNow makes the ping of an unreached colo due.
func pingNow(e *Entry, colo string) {
	s := e.observed.state(colo)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reach.until = time.Now()
}

// An answer to a request brings an unreached colo back: where it stands last, it is asked if all others are full.
func TestUnreachedColoIsAskedLast(t *testing.T) {
	t.Parallel()
	url, e, ams, fra := twoFarColos(t)
	now := time.Now()
	for range unreachedAfter {
		e.observed.noteUnreached("ams", now, now)
	}
	fra.cut.Store(true)
	sends(t, url, 1)
	if a, f := ams.requests.Load(), fra.requests.Load(); a != 1 || f != 1 {
		t.Errorf("%d requests at the unreached colo, %d at the other", a, f)
	}
	if c := observedColo(t, e, "ams"); c.Unreached {
		t.Errorf("after an answer: %+v", c)
	}
}

// Engines that fail do not make their colo unreached.
func TestFailingEnginesAreReached(t *testing.T) {
	t.Parallel()
	url, e, ams, fra := twoFarColos(t)
	ams.fails.Store(true)
	for range 6 {
		_, _ = chat(t, url, request) // the retry budget does not suffice for all
	}
	if a, f := ams.requests.Load(), fra.requests.Load(); a != 6 || f == 0 || observedColo(t, e, "ams").Failures != 0 {
		t.Errorf("%d and %d requests; observed %+v", a, f, observedColo(t, e, "ams"))
	}
}

// A colo is reached as long as one of its servers answers, and unreached once requests find none.
func TestColoOfALostServerIsReached(t *testing.T) {
	t.Parallel()
	s := startLine(t, 3)
	url, e := startEntryWith(t, Config{Table: tableFunc(s.table)}, t.TempDir())
	s.answers(0, cut)
	sends(t, url, 6)
	if c := observedColo(t, e, "ams"); c.Unreached || c.Failures != 0 {
		t.Errorf("of three servers, one answers: %+v", c)
	}
	s.answers(1, cut)
	s.answers(2, cut)
	for range unreachedAfter {
		_, _ = chat(t, url, request)
	}
	if c := observedColo(t, e, "ams"); !c.Unreached {
		t.Errorf("none answers: %+v", c)
	}
}

// Neither a shortage on this machine, nor a request that had no time left, nor a slow server says that a colo is not reached.
func TestFailuresThatSayNothingAboutAColo(t *testing.T) {
	url, e, _, _ := twoFarColos(t)
	sends(t, url, 1)
	for what, f := range map[string]struct {
		err  error
		left time.Duration
		want int
	}{
		"refused":        {&transport.ExchangeError{Phase: transport.PhaseConnect, Err: syscall.ECONNREFUSED}, time.Minute, 1},
		"lost":           {&transport.ExchangeError{Phase: transport.PhaseFirstByte, Err: io.EOF}, time.Minute, 1},
		"silent":         {peer.ErrSilent, time.Minute, 1},
		"a shortage":     {&transport.ExchangeError{Phase: transport.PhaseConnect, Err: syscall.EMFILE}, time.Minute, 0},
		"not signed":     {&transport.ExchangeError{Phase: transport.PhaseConnect, Err: peer.ErrNotSigned}, time.Minute, 0},
		"no time":        {&transport.ExchangeError{Phase: transport.PhaseConnect, Timeout: true, Err: errors.New("timeout")}, -time.Second, 0},
		"no first byte":  {&transport.ExchangeError{Phase: transport.PhaseFirstByte, Timeout: true, Err: errors.New("timeout")}, time.Minute, 0},
		"cut":            {&transport.ExchangeError{Phase: transport.PhaseStream, Err: io.EOF}, time.Minute, 0},
		"another sender": {&peer.NoVerdictError{Status: 403, Replayed: true, Err: errors.New("replayed")}, time.Minute, 0},
	} {
		table := e.config.Table()
		c := &call{entry: e, id: "r", deadline: time.Now().Add(f.left), attemptBegan: time.Now(), table: table}
		ams, _ := table.Colo("ams")
		c.attempts = newAttempts([]candidate{{Colo: ams}}, table.Servers, queueDefault, fleet.Retry{Errors: 1})
		at, _ := c.attempts.next()
		c.failedForward(at, f.err)
		if got := observedColo(t, e, "ams").Failures; got != f.want {
			t.Errorf("%s: %d failures, want %d", what, got, f.want)
		}
		e.observed.state("ams").noteAnswered(0, false, time.Now())
	}
}

// An attempt at a colo ends with its last server.
func TestServersOfAColoAreOneAttempt(t *testing.T) {
	t.Parallel()
	s := startLine(t, 3)
	_, e := startEntryWith(t, Config{Table: tableFunc(s.table)}, t.TempDir())
	c := &call{entry: e, id: "r", deadline: time.Now().Add(time.Minute), attemptBegan: time.Now(), table: s.table}
	c.attempts = newAttempts([]candidate{{Colo: s.table.Colos()[0]}}, func(string) []*fleet.Server { return s.line }, queueDefault, fleet.Retry{Errors: 1})
	for i := range s.line {
		if n := observedColo(t, e, "ams").Failures; n != 0 {
			t.Errorf("after %d servers: %d failures", i, n)
		}
		at, _ := c.attempts.next()
		c.failedForward(at, &transport.ExchangeError{Phase: transport.PhaseConnect, Err: syscall.ECONNREFUSED})
	}
	if n := observedColo(t, e, "ams").Failures; n != 1 {
		t.Errorf("after all servers: %d failures", n)
	}
}

// The requests that an unreached colo has are not touched.
func TestRequestsOfAnUnreachedColoGoOn(t *testing.T) {
	t.Parallel()
	half, rest := make(chan struct{}), make(chan struct{})
	table := tableOf(t, "key: models/m\n"+colo(t, "ams", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" { // a ping
			http.NotFound(w, r)
			return
		}
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\n")
		w.(http.Flusher).Flush()
		close(half)
		<-rest
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	url, e := startEntryWith(t, Config{Table: tableFunc(table)}, t.TempDir())
	go func() {
		defer close(rest)
		<-half
		testkit.WaitFor(t, "the colo to be unreached", func() bool {
			e.observed.noteUnreached("ams", time.Now(), time.Now())
			return observedColo(t, e, "ams").Unreached
		})
	}()
	if status, answer := chat(t, url, `{"model":"m","messages":[],"stream":true}`); status != 200 || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("answer %d %q", status, answer)
	}
}

// Two round trips of a deadline are kept for the way to a far colo and back, and at least 50 ms. A colo that is too far for a deadline is
// left out, for another that may be nearer.
func TestDeadlineOfAFarColo(t *testing.T) {
	t.Parallel()
	url, e, ams, fra := twoFarColos(t)
	ams.says.Store("not") // so that their answers do not change the distance
	fra.says.Store("not")
	ams.tokens, fra.tokens = make(chan hop.Token, 1), make(chan hop.Token, 1)
	const far = 200 * time.Millisecond
	e.observed.state("ams").noteAnswered(far, true, time.Now())
	for _, f := range []struct {
		deadline       time.Duration
		from           *farColo
		least, reserve time.Duration
	}{
		{time.Minute, ams, 50 * time.Second, 2 * far}, {2 * far, fra, 0, 50 * time.Millisecond},
	} {
		status, _ := chatBy(t, url, f.deadline)
		if status != 200 {
			t.Fatalf("status %d", status)
		}
		token := <-f.from.tokens
		if left := f.deadline - time.Duration(token.FirstByte); left < f.reserve || time.Duration(token.FirstByte) < f.least {
			t.Errorf("of %s, %s are kept; want at least %s", f.deadline, left, f.reserve)
		}
	}
	fra.cut.Store(true) // so only the far colo could serve
	for _, both := range []bool{false, true} {
		if both {
			e.observed.state("fra").noteAnswered(far, true, time.Now())
		}
		before := ams.requests.Load()
		status, answer := chatBy(t, url, 2*far)
		if n := ams.requests.Load() - before; n != 0 || both && (status != 429 || !strings.Contains(answer, "deadline")) {
			t.Errorf("both far %v: %d requests at a colo that is too far; answer %d %s", both, n, status, answer)
		}
	}
}

// chatBy sends a request with a deadline.
func chatBy(t *testing.T, url string, deadline time.Duration) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(hop.HeaderDeadlineMS, fmt.Sprint(deadline.Milliseconds()))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}
