package liveness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
)

// clocked is a watcher whose time a test moves on in steps of a sweep.
type clocked struct {
	*Watcher
	t          *testing.T
	now        time.Time
	registered []Registered
	changed    bool                       // registered was not returned yet
	sent       map[*pendingAttempt]string // attempts that are not known to be given up, and their colos
}

func newClocked(t *testing.T) *clocked {
	c := &clocked{t: t, now: time.Now(), sent: map[*pendingAttempt]string{}}
	c.register(inAms, inFra)
	c.Watcher = New(Config{
		Registered: func() ([]Registered, bool) {
			defer func() { c.changed = false }()
			return c.registered, c.changed
		},
		MarkDead: func(peer.Server) { t.Error("marks a server as dead without a probe") },
	})
	return c
}

// newUnregistered returns a watcher that knows servers only by the attempts at them.
func newUnregistered(t *testing.T) *clocked {
	return &clocked{t: t, now: time.Now(), Watcher: New(Config{}), sent: map[*pendingAttempt]string{}}
}

var (
	inAms = Registered{Server: peer.Server{Colo: "ams", Node: "ams-1", Address: "127.0.0.1:1", Boot: "x"}}
	inFra = Registered{Server: peer.Server{Colo: "fra", Node: "fra-1", Address: "127.0.0.1:2", Boot: "x"}}
)

// register replaces the registered servers.
func (c *clocked) register(servers ...Registered) { c.registered, c.changed = servers, true }

func server(colo string) peer.Server {
	return peer.Server{Colo: colo, Node: colo + "-1", Address: "127.0.0.1:1", Boot: "x"}
}

// send begins an attempt at the server of a colo.
func (c *clocked) send(colo string) *pendingAttempt {
	to := server(colo)
	a := c.begin(&to, c.now)
	c.sent[a] = colo
	return a
}

// pass moves the time on, and returns the questions that are asked meanwhile, as "colo after".
func (c *clocked) pass(d time.Duration) (asked []*watchedServer) {
	for range d / c.config.Timings.Sweep {
		c.now = c.now.Add(c.config.Timings.Sweep)
		for _, q := range c.sweep(c.now) {
			asked = append(asked, q.watched)
		}
	}
	return asked
}

// expect moves the time on, and expects questions to the servers of some colos.
func (c *clocked) expect(d time.Duration, colos ...string) []*watchedServer {
	c.t.Helper()
	asked := c.pass(d)
	var got []string
	for _, w := range asked {
		got = append(got, w.server.Colo)
	}
	if slices.Sort(got); !slices.Equal(got, colos) {
		c.t.Fatalf("asked %v, want %v", got, colos)
	}
	return asked
}

func (c *clocked) expectGone(colos ...string) {
	c.t.Helper()
	var gone []string
	for a, colo := range c.sent {
		switch cause := a.abort.Cause(); {
		case cause == nil:
			continue
		case !errors.Is(cause, peer.ErrSilent):
			c.t.Errorf("an attempt in %s was given up for %v", colo, cause)
		}
		gone = append(gone, colo)
		delete(c.sent, a)
	}
	if slices.Sort(gone); !slices.Equal(gone, colos) {
		c.t.Fatalf("given up in %v, want %v", gone, colos)
	}
}

var errLate = context.DeadlineExceeded

func refusedError() error {
	return &transport.ExchangeError{Phase: transport.PhaseConnect, Err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}
}

// A server without a byte for half a second is asked once, however many requests it has; after a second they go on, all of them, and
// later ones avoid it until it shows a sign of life.
func TestRequestsOfASilentServerGoOn(t *testing.T) {
	c := newClocked(t)
	for range 3 {
		c.send("ams")
	}
	c.expect(400 * time.Millisecond)
	c.send("ams") // the silence began before
	asked := c.expect(500*time.Millisecond, "ams")
	c.expectGone()
	c.expect(100 * time.Millisecond)
	c.expectGone("ams", "ams", "ams", "ams")
	if !c.IsSilent(server("ams")) || c.IsSilent(server("fra")) {
		t.Error("later requests do not avoid the server")
	}
	c.expect(3 * time.Second) // the question is still open
	c.probed(asked[0], errLate, c.now)
	asked = c.expect(500*time.Millisecond, "ams")
	c.send("ams") // which has nowhere better to go
	c.expect(200 * time.Millisecond)
	c.expectGone("ams")
	c.probed(asked[0], nil, c.now)
	if c.IsSilent(server("ams")) {
		t.Error("requests avoid a server that lives")
	}
	c.expect(5 * time.Second)
}

// A server that answers questions keeps its requests, however long they take; so does one that sends something else, one whose host
// refuses the question, and one that cannot be asked for a fault of this process.
func TestSignsOfLife(t *testing.T) {
	for name, answer := range map[string]func(*clocked, *watchedServer){
		"answers": func(c *clocked, w *watchedServer) { c.probed(w, nil, c.now) },
		"refuses": func(c *clocked, w *watchedServer) { c.probed(w, refusedError(), c.now) },
		"sends": func(c *clocked, w *watchedServer) {
			w.hear()
			c.probed(w, errLate, c.now)
		},
		"not asked": func(c *clocked, w *watchedServer) { c.notProbed(w) },
	} {
		c := newClocked(t)
		a := c.send("ams")
		for range 60 {
			for _, w := range c.pass(c.config.Timings.Sweep) {
				answer(c, w)
			}
		}
		c.expectGone()
		if c.end(a, true) {
			t.Errorf("%s: the attempt was given up", name)
		}
		if asked := c.pass(5 * time.Second); len(asked) > 0 || c.IsSilent(server("ams")) {
			t.Errorf("%s: without a request, it is asked %d times", name, len(asked))
		}
	}
}

// A request that has its first byte is not given up.
func TestAnsweredRequestIsNotGivenUp(t *testing.T) {
	c := newClocked(t)
	c.end(c.send("ams"), true)
	c.expect(3 * time.Second)
	c.send("ams")
	c.expect(900*time.Millisecond, "ams")
	c.expectGone()
}

// The time in which this process itself stood still does not count as silence.
func TestOwnStandstillIsNoSilence(t *testing.T) {
	c := newClocked(t)
	c.send("ams")
	c.expect(500*time.Millisecond, "ams")
	c.now = c.now.Add(10 * time.Second)
	c.expect(400 * time.Millisecond)
	c.expectGone()
}

// Servers whose leases have expired are asked each second, and are dead if they refuse, or fail to answer twice in a row.
func TestExpiredServersAreProbed(t *testing.T) {
	c := newClocked(t)
	c.expect(2 * time.Second)
	expired := inAms
	expired.Expired = true
	c.register(expired, inFra)
	f := func(err error, want bool) {
		t.Helper()
		asked := c.expect(time.Second, "ams")
		if got := c.probed(asked[0], err, c.now); got != want {
			t.Errorf("after %v: dead is %v, want %v", err, got, want)
		}
	}
	f(nil, false)
	f(errLate, false)
	f(nil, false)
	f(errLate, false)
	f(errLate, true)
	f(errLate, true) // the mark may have had no effect
	f(nil, false)
	f(refusedError(), true)
	c.register(inAms, inFra)
	c.expect(3 * time.Second)
	c.register(inFra, Registered{Server: server("waw")})
	c.expect(time.Second)
	if len(c.servers) != 0 {
		t.Errorf("watches %d servers that are gone", len(c.servers))
	}
}

// A server that is not registered is watched while it has an attempt. It is forgotten afterwards; a silent one after a minute.
func TestServerThatIsNotRegistered(t *testing.T) {
	c := newClocked(t)
	c.pass(c.config.Timings.Sweep)
	named := peer.Server{Colo: "ams", Node: "ams-9", Boot: "x"}
	send := func() *pendingAttempt { return c.begin(&named, c.now) }
	a := send()
	c.expect(500*time.Millisecond, "ams")
	c.end(a, true)
	c.expect(2 * c.config.Timings.Sweep)
	if gone := a.abort.Cause(); len(c.servers) != 0 || gone != nil {
		t.Errorf("watches %d servers without an attempt; given up: %v", len(c.servers), gone)
	}
	a = send()
	c.probed(c.expect(500*time.Millisecond, "ams")[0], errLate, c.now)
	c.expect(500 * time.Millisecond)
	if gone := a.abort.Cause(); !errors.Is(gone, peer.ErrSilent) || !c.IsSilent(named) {
		t.Errorf("given up: %v", gone)
	}
	if c.pass(silentLifetime); len(c.servers) != 0 || c.IsSilent(named) {
		t.Errorf("watches %d servers a minute later", len(c.servers))
	}
}

// An attempt that is given up just when its response begins is not sent again: a whole response is used, and any other is an error that
// forbids another attempt.
func TestResponseThatBeginsWhileItIsGivenUp(t *testing.T) {
	c := newClocked(t)
	whole := transport.NewResponse(200, "application/json", []byte("{}"))
	for _, response := range []*transport.Response{whole, {}} {
		closed := 0
		answer, err := c.watch(server("ams"), func(abort *transport.Abort) (*peer.Answer, error) {
			c.pass(3 * time.Second)
			if !errors.Is(abort.Cause(), peer.ErrSilent) {
				t.Errorf("ended by %v", abort.Cause())
			}
			return &peer.Answer{Response: response, OnClose: func() { closed++ }}, nil
		})
		var failed *transport.ExchangeError
		switch {
		case response == whole:
			if err != nil || answer.Response != whole || closed != 0 {
				t.Errorf("whole: %+v, %v, closed %d times", answer, err, closed)
			}
		case !errors.As(err, &failed) || failed.Phase != transport.PhaseStream || errors.Is(err, peer.ErrSilent) || closed != 1:
			t.Errorf("not whole: %+v, %v, closed %d times", answer, err, closed)
		}
	}
}

// A sweep that comes late, since the processor is busy, makes no server silent by that.
func TestLateSweepsAreNoSilence(t *testing.T) {
	c := newClocked(t)
	c.pass(c.config.Timings.Sweep)
	c.send("ams")
	for range 4 { // 1.6 s, of which four tenths count
		c.now = c.now.Add(4 * c.config.Timings.Sweep)
		if asked := c.sweep(c.now); len(asked) > 0 {
			t.Fatal("asks a server though this process has looked at it less often than it should")
		}
	}
	c.expect(time.Second, "ams")
	c.expectGone("ams")
}

// A watcher without registrations keeps a server for a minute after its last attempt, so that the streams that it sends are signs of life.
// It forgets a silent one after a minute, too.
func TestServersWithoutRegistrations(t *testing.T) {
	c := newUnregistered(t)
	streaming := c.send("ams")
	c.end(streaming, true)
	c.expect(idleLifetime - time.Second)
	pending := c.send("ams")
	for range 30 {
		streaming.server.hear()
		c.expect(c.config.Timings.Sweep)
	}
	c.end(pending, true)
	if c.expect(idleLifetime - c.config.Timings.Sweep); len(c.servers) != 1 {
		t.Errorf("watches %d servers less than a minute after the last attempt", len(c.servers))
	}
	if c.expect(c.config.Timings.Sweep); len(c.servers) != 0 {
		t.Errorf("watches %d servers a minute after the last attempt", len(c.servers))
	}
	c.expectGone()

	c.send("fra")
	c.probed(c.expect(500*time.Millisecond, "fra")[0], errLate, c.now)
	c.expect(500 * time.Millisecond)
	c.expectGone("fra")
	c.pass(silentLifetime - 2*time.Second)
	if !c.IsSilent(server("fra")) {
		t.Error("a silent server is forgotten too early")
	}
	if c.pass(2 * time.Second); len(c.servers) != 0 || c.IsSilent(server("fra")) {
		t.Errorf("watches %d servers a minute later", len(c.servers))
	}
}

// A server to which no connection can be made in time is silent as one that does not answer: the attempt ends before a sweep could find that,
// and each of the next ones would wait as long.
func TestServerThatIsNotConnectedInTime(t *testing.T) {
	timedOut := &transport.ExchangeError{Phase: transport.PhaseConnect, Timeout: true, Err: errLate}
	f := func(name string, quiet, sinceSweep time.Duration, err error, want bool) {
		t.Helper()
		c := newUnregistered(t)
		_, got := c.watch(server("ams"), func(*transport.Abort) (*peer.Answer, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			now := time.Now()
			c.swept, c.servers[processOf(&inAms.Server)].quietSince = now.Add(-sinceSweep), now.Add(-quiet)
			return nil, err
		})
		if !errors.Is(got, err) || c.IsSilent(server("ams")) != want {
			t.Errorf("%s: %v, silent %v, want %v", name, got, !want, want)
		}
	}
	f("after a second", time.Second, 0, timedOut, true)
	f("earlier", time.Second-100*time.Millisecond, 0, timedOut, false)
	f("this process was stopped", 5*time.Second, 5*time.Second, timedOut, false)
	f("refused", time.Second, 0, refusedError(), false)
	f("connected, but slow", time.Second, 0, &transport.ExchangeError{Phase: transport.PhaseFirstByte, Timeout: true, Err: errLate}, false)
}

// BenchmarkWatch is what the watch for a sign of life adds to a request.
func BenchmarkWatch(b *testing.B) {
	w := New(Config{Alive: func(context.Context, peer.Server) error { return nil }})
	answer := &peer.Answer{}
	do := func(*transport.Abort) (*peer.Answer, error) { return answer, nil }
	b.ReportAllocs()
	for b.Loop() {
		_, _ = w.watch(server("ams"), do)
	}
}
