package entry

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
)

// pinged is observations of colos, and their clock.
type pinged struct {
	*observations
	t   *testing.T
	now time.Time
}

func newPinged(t *testing.T, documents string) *pinged {
	table := tableOf(t, documents)
	o := newObservations(tableFunc(table), allElsewhere)
	o.random = func() float64 { return 0.5 }
	return &pinged{o, t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// ask notes that a plan asks for the distance of colos.
func (p *pinged) ask(colos ...string) {
	for _, name := range colos {
		p.roundTrip(&fleet.Colo{Name: name})
	}
}

// fail notes attempts that found no server, until the colo is unreached.
func (p *pinged) fail(colo string) {
	p.t.Helper()
	for range unreachedAfter {
		p.noteUnreached(colo, p.now, p.now)
	}
	if !p.state(colo).unreached.Load() {
		p.t.Fatalf("%s is not unreached", colo)
	}
}

// next begins the ping that is due after a time, of the server that is wanted; empty = none.
func (p *pinged) next(after time.Duration, want string) ping {
	p.t.Helper()
	return p.due(p.nextPing, after, want)
}

// due begins the ping that a function finds after a time, of the server that is wanted; empty = none.
func (p *pinged) due(find func(now time.Time) (ping, bool), after time.Duration, want string) ping {
	p.t.Helper()
	p.now = p.now.Add(after)
	got := ""
	next, ok := find(p.now)
	if ok {
		got = next.server.Node
	}
	if got != want {
		p.t.Errorf("the ping that is due is of %q, want %q", got, want)
	}
	return next
}

func (p *pinged) answer(of ping, roundTrip time.Duration) {
	of.state.endPing(pingResult{roundTrip: roundTrip, measured: true, at: p.now})
}

func (p *pinged) noAnswer(of ping) {
	of.state.endPing(pingResult{failed: true, at: p.now, random: 0.5})
}

const pingedColos = "key: models/m\n" +
	"---\nkey: colos/ams\n---\nkey: servers/ams/ams-1\naddress: 127.0.0.1:1\nboot: x\n---\nkey: servers/ams/ams-2\naddress: 127.0.0.1:1\nboot: x\n" +
	"---\nkey: servers/ams/ams-0\naddress: 127.0.0.1:1\nboot: x\nstate: draining\n" +
	"---\nkey: colos/fra\n---\nkey: servers/fra/fra-1\naddress: 127.0.0.1:1\nboot: x\n---\nkey: colos/iad\n"

// A colo is pinged once a plan asks for its distance, unless an answer has shown it in the last 30 s.
func TestPingOfAColoWhoseDistanceIsAsked(t *testing.T) {
	p := newPinged(t, pingedColos)
	p.next(time.Hour, "")
	p.ask("fra", "iad") // which has no server
	first := p.next(0, "fra-1")
	p.ask("fra")
	p.next(time.Hour, "") // while it is under way
	p.answer(first, 8*time.Millisecond)
	if d, measured := p.measured(&fleet.Colo{Name: "fra"}); d != 8*time.Millisecond || !measured {
		t.Errorf("measured %s, %v", d, measured)
	}
	p.next(measuredFor-1, "")
	p.state("fra").noteAnswered(8*time.Millisecond, true, p.now)
	p.next(measuredFor-1, "")
	p.state("fra").noteAnswered(0, false, p.now) // an answer that shows no round trip
	second := p.next(1, "fra-1")
	p.answer(second, 8*time.Millisecond)
	p.next(time.Hour, "") // since no plan has asked
}

// A ping without an answer is repeated after longer and longer times, and one without a round trip after 30 s. One that this machine could
// not send says nothing.
func TestPingWithoutARoundTrip(t *testing.T) {
	p := newPinged(t, pingedColos)
	p.ask("fra")
	last := p.next(0, "fra-1")
	for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		p.noAnswer(last)
		p.ask("fra")
		p.next(seconds*time.Second-1, "")
		last = p.next(1, "fra-1")
	}
	if p.state("fra").unreached.Load() {
		t.Error("pings for the distance make a colo unreached")
	}
	last.state.endPing(pingResult{at: p.now})
	p.ask("fra")
	p.next(measuredFor-1, "")
	last = p.next(1, "fra-1")
	last.state.endPing(pingResult{failed: true, noEvidence: true, at: p.now})
	p.ask("fra")
	p.next(measuredFor-1, "")
	p.next(1, "fra-1")
}

// The colo whose last ping is the longest ago is next, and of its active servers each in turn.
func TestPingsTakeTurns(t *testing.T) {
	p := newPinged(t, pingedColos)
	for _, want := range []string{"ams-1", "ams-2", "ams-1"} {
		p.ask("ams", "fra")
		one := p.next(0, want)
		other := p.next(time.Second, "fra-1")
		p.next(time.Second, "")
		p.answer(one, 0)
		p.answer(other, 0)
		p.now = p.now.Add(measuredFor)
	}
}

// A ping decides about an unreached colo, without any plan.
func TestPingDecidesAboutAnUnreachedColo(t *testing.T) {
	p := newPinged(t, pingedColos)
	p.fail("ams")
	unreached := func(colo string) bool { return p.seen(poolIn{"m", colo}, p.now).Unreached }
	if !unreached("ams") || unreached("fra") {
		t.Errorf("plans see %v and %v", unreached("ams"), unreached("fra"))
	}
	p.next(minUnreached-1, "")
	first := p.next(1, "ams-1")
	p.noAnswer(first)
	p.next(2*minUnreached-1, "")
	second := p.next(1, "ams-2")
	second.state.endPing(pingResult{failed: true, noEvidence: true, at: p.now})
	third := p.next(100*time.Millisecond, "ams-1")
	if !unreached("ams") {
		t.Error("a ping that is under way, or could not be sent, brings it back")
	}
	p.answer(third, 0)
	if unreached("ams") {
		t.Error("an answer to a ping does not bring it back")
	}
	p.fail("ams")
	p.state("ams").noteAnswered(0, false, p.now)
	if unreached("ams") {
		t.Error("an answer to a request does not bring it back")
	}
}

// A colo that has left the table is not pinged, and nothing is known of one that comes back.
func TestPingsFollowTheTable(t *testing.T) {
	p := newPinged(t, pingedColos)
	both := p.table()
	p.ask("fra")
	p.state("fra").noteAnswered(time.Second, true, p.now)
	p.fail("fra")
	p.table = tableFunc(tableOf(t, "key: colos/ams\n"))
	p.next(time.Hour, "")
	if p.noteUnreached("fra", p.now, p.now) || p.state("fra") != nil {
		t.Error("a colo that is not in the table is known")
	}
	p.table = tableFunc(both)
	if _, measured := p.measured(&fleet.Colo{Name: "fra"}); measured || p.state("fra").unreached.Load() {
		t.Error("it is known what was measured before")
	}
}

// A colo of this process is no distance away, and is not pinged.
func TestLocalColo(t *testing.T) {
	p := newPinged(t, pingedColos)
	p.isLocal = func(s *fleet.Server) bool { return s.Colo == "fra" }
	p.ask("fra")
	p.next(time.Hour, "")
	if d, measured := p.measured(&fleet.Colo{Name: "fra"}); d != 0 || !measured {
		t.Errorf("it is %s, %v away", d, measured)
	}
	p.isLocal = func(s *fleet.Server) bool { return s.Colo == "ams" } // since the table was read
	ams := p.table().Servers("ams")[0]
	p.noteAnswer(ams, &peer.Answer{}, p.now)
	if d, measured := p.measured(&fleet.Colo{Name: "ams"}); d != 0 || !measured {
		t.Errorf("a colo of this process is %s, %v away", d, measured)
	}
}

// However many colos are due, an entry begins at most one ping in 100 ms, and ends them all before it stops.
func TestRateOfPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		documents := "key: models/m\n"
		for i := range 50 {
			documents += fmt.Sprintf("---\nkey: colos/c%d\n---\nkey: servers/c%[1]d/c%[1]d-1\naddress: 127.0.0.1:1\nboot: x\n", i)
		}
		p := newPinged(t, documents)
		var at []time.Time
		e := &Entry{observed: p.observations, config: Config{Local: func(*fleet.Server) peer.Func {
			at = append(at, time.Now())
			return func(context.Context, *peer.Request) (*peer.Answer, error) { return nil, nil }
		}}}
		for _, c := range p.table().Colos() {
			p.ask(c.Name)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e.runPings(ctx)
		if len(at) != 50 {
			t.Errorf("%d pings of 50 colos", len(at))
		}
		for i := range at[1:] {
			if gap := at[i+1].Sub(at[i]); gap < 100*time.Millisecond {
				t.Errorf("%s between two pings", gap)
			}
		}
	})
}
