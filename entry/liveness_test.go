package entry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
)

// clocked is a liveness whose time a test moves on in steps of a sweep.
type clocked struct {
	*liveness
	t     *testing.T
	now   time.Time
	table *fleet.Table
	dead  []string
	gone  []string // attempts that were given up
}

func newClocked(t *testing.T) *clocked {
	c := &clocked{t: t, now: time.Now(), table: tableOf(t, "key: models/m\n"+twoServers)}
	c.liveness = newLiveness(func() *fleet.Table { return c.table }, nil, func(keys ...string) { c.dead = append(c.dead, keys...) })
	c.timings = defaultLivenessTimings()
	return c
}

const twoServers = "---\nkey: colos/ams\nregion: eu\n---\nkey: servers/ams/ams-1\naddress: 127.0.0.1:1\nboot: x\n" +
	"---\nkey: colos/fra\nregion: eu\n---\nkey: servers/fra/fra-1\naddress: 127.0.0.1:2\nboot: x\n"

func (c *clocked) server(colo string) *fleet.Server { return c.table.Servers(colo)[0] }

// send begins an attempt at the server of a colo.
func (c *clocked) send(colo string) *pendingAttempt {
	return c.begin(c.server(colo), c.now, func(cause error) {
		if !errors.Is(cause, errSilent) {
			c.t.Errorf("an attempt in %s was given up for %v", colo, cause)
		}
		c.gone = append(c.gone, colo)
	})
}

// pass moves the time on, and returns the questions that are asked meanwhile, as "colo after".
func (c *clocked) pass(d time.Duration) (asked []*watchedServer) {
	for range d / c.timings.sweep {
		c.now = c.now.Add(c.timings.sweep)
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
	if slices.Sort(c.gone); !slices.Equal(c.gone, colos) {
		c.t.Fatalf("given up in %v, want %v", c.gone, colos)
	}
	c.gone = nil
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
	if !c.isSilent(c.server("ams")) || c.isSilent(c.server("fra")) {
		t.Error("later requests do not avoid the server")
	}
	c.expect(3 * time.Second) // the question is still open
	c.probed(asked[0], errLate, c.now)
	asked = c.expect(500*time.Millisecond, "ams")
	c.send("ams") // which has nowhere better to go
	c.expect(200 * time.Millisecond)
	c.expectGone("ams")
	c.probed(asked[0], nil, c.now)
	if c.isSilent(c.server("ams")) {
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
		u := c.send("ams")
		for range 60 {
			for _, w := range c.pass(c.timings.sweep) {
				answer(c, w)
			}
		}
		c.expectGone()
		if c.end(u, true) {
			t.Errorf("%s: the attempt was given up", name)
		}
		if asked := c.pass(5 * time.Second); len(asked) > 0 || c.isSilent(c.server("ams")) {
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
	expired := tableOf(t, "key: models/m\n"+twoServers)
	expired.ExpiredLeases = []string{"endpoints/ams/e", "servers/ams/ams-1"}
	c.table = expired
	f := func(err error, want string) {
		t.Helper()
		asked := c.expect(time.Second, "ams")
		if got := c.probed(asked[0], err, c.now); got != want {
			t.Errorf("after %v: dead is %q, want %q", err, got, want)
		}
	}
	f(nil, "")
	f(errLate, "")
	f(nil, "")
	f(errLate, "")
	f(errLate, "servers/ams/ams-1")
	f(errLate, "servers/ams/ams-1") // the mark may have had no effect
	f(nil, "")
	f(refusedError(), "servers/ams/ams-1")
	c.table = tableOf(t, "key: models/m\n"+twoServers)
	c.expect(3 * time.Second)
	c.table = tableOf(t, "key: models/m\n"+strings.ReplaceAll(twoServers, "ams", "waw"))
	c.expect(time.Second)
	if len(c.servers) != 0 {
		t.Errorf("watches %d servers that are gone", len(c.servers))
	}
}

// A server that is not in the table is watched while it has an attempt. It is forgotten afterwards; a silent one after a minute.
func TestServerBesideTheTable(t *testing.T) {
	c := newClocked(t)
	c.pass(c.timings.sweep)
	named := &fleet.Server{Colo: "ams", Node: "ams-9", Boot: "x"}
	var gone error
	send := func() *pendingAttempt { return c.begin(named, c.now, func(cause error) { gone = cause }) }
	u := send()
	c.expect(500*time.Millisecond, "ams")
	c.end(u, true)
	c.expect(2 * c.timings.sweep)
	if len(c.servers) != 0 || gone != nil {
		t.Errorf("watches %d servers without an attempt; given up: %v", len(c.servers), gone)
	}
	send()
	c.probed(c.expect(500*time.Millisecond, "ams")[0], errLate, c.now)
	c.expect(500 * time.Millisecond)
	if !errors.Is(gone, errSilent) || !c.isSilent(named) {
		t.Errorf("given up: %v", gone)
	}
	if c.pass(silentLifetime); len(c.servers) != 0 || c.isSilent(named) {
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
		answer, err := c.watch(c.server("ams"), c.now, func(abort *transport.Abort) (*peer.Answer, error) {
			c.pass(3 * time.Second)
			if !errors.Is(abort.Cause(), errSilent) {
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
		case !errors.As(err, &failed) || failed.Phase != transport.PhaseStream || errors.Is(err, errSilent) || closed != 1:
			t.Errorf("not whole: %+v, %v, closed %d times", answer, err, closed)
		}
	}
}

// A sweep that comes late, since the processor is busy, makes no server silent by that.
func TestLateSweepsAreNoSilence(t *testing.T) {
	c := newClocked(t)
	c.pass(c.timings.sweep)
	c.send("ams")
	for range 4 { // 1.6 s, of which four tenths count
		c.now = c.now.Add(4 * c.timings.sweep)
		if asked := c.sweep(c.now); len(asked) > 0 {
			t.Fatal("asks a server though this process has looked at it less often than it should")
		}
	}
	c.expect(time.Second, "ams")
	c.expectGone("ams")
}
