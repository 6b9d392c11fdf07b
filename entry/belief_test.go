package entry

import (
	"errors"
	"testing"
	"time"

	"colonnade/forwarding/peer"
)

// belief begins the ping for belief that is due after a time, of the server that is wanted; empty = none.
func (p *pinged) belief(after time.Duration, want string) ping {
	p.t.Helper()
	return p.due(p.nextBeliefPing, after, want)
}

func (p *pinged) reject(of ping) {
	of.state.endPing(pingResult{failed: true, rejected: true, at: p.now, random: 0.5})
}

// wantDisbelieving compares the colos that do not believe this entry, and whether all that answer are among them.
func (p *pinged) wantDisbelieving(all bool, colos ...string) {
	p.t.Helper()
	got, gotAll := p.disbelieving()
	if len(got) != len(colos) || gotAll != all || len(got) > 0 && got[0] != colos[0] {
		p.t.Errorf("disbelieving %v, all %v, want %v, %v", got, gotAll, colos, all)
	}
}

// An entry without requests pings one colo in 30 s while it is believed, and all colos in turn while it is not.
func TestPingsForBelief(t *testing.T) {
	p := newPinged(t, pingedColos)
	p.wantDisbelieving(false)
	p.answer(p.belief(0, "ams-1"), time.Millisecond)
	p.belief(0, "")
	p.belief(believedFor-1, "")
	first := p.belief(1, "fra-1") // whose last ping is the longest ago
	second := p.belief(0, "ams-2")
	p.belief(time.Second, "") // while they are under way
	p.reject(first)
	p.answer(second, time.Millisecond)
	p.belief(believedFor-1, "")
	p.wantDisbelieving(false)
}

// After three rejections in a row, a colo does not believe this entry. The entry is not ready if that holds for all that answer.
func TestDisbelievingColos(t *testing.T) {
	p := newPinged(t, pingedColos)
	for i, after := range []time.Duration{0, time.Second, 2 * time.Second} {
		ams := p.belief(after, []string{"ams-1", "ams-2", "ams-1"}[i])
		fra := p.belief(0, "fra-1")
		p.wantDisbelieving(false)
		p.reject(ams)
		p.reject(fra)
	}
	p.wantDisbelieving(true, "ams", "fra")
	p.state("fra").noteAnswered(0, false, p.now)
	p.wantDisbelieving(false, "ams")
	p.fail("fra")
	p.wantDisbelieving(true, "ams") // fra does not answer any more
	p.state("ams").noteAnswered(0, false, p.now)
	p.wantDisbelieving(false)
}

// Requests that are rejected count, and those that find no server say nothing.
func TestRejectedRequests(t *testing.T) {
	p := newPinged(t, pingedColos)
	p.noteRejected("none")
	p.fail("fra")
	for range disbelievedAfter {
		p.wantDisbelieving(false)
		p.noteRejected("ams")
	}
	p.wantDisbelieving(true, "ams")
	if !isRejected(&peer.NoVerdictError{Status: 403, Rejected: true}) || isRejected(&peer.NoVerdictError{Status: 403}) || isRejected(errors.New("no answer")) {
		t.Error("an error of a ping is taken for another")
	}
}

// A colo that was not tried yet may believe this entry.
func TestUntriedColosMayBelieve(t *testing.T) {
	p := newPinged(t, pingedColos)
	for range disbelievedAfter {
		p.noteRejected("ams")
	}
	p.wantDisbelieving(false, "ams")
	p.noAnswer(p.belief(0, "ams-1"))
	p.noAnswer(p.belief(0, "fra-1"))
	p.wantDisbelieving(true, "ams")
}
