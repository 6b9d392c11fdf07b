package admission

import (
	"errors"
	"testing"
	"time"
)

var (
	errProbe = errors.New("probe failed")
	begin    = time.Unix(1_790_000_000, 0)
)

func yes() bool { return true }
func no() bool  { return false }

func TestFiveFailuresInARowEject(t *testing.T) {
	var h health
	for range 4 {
		h.failed(begin, yes)
	}
	h.succeeded()
	for range 4 {
		h.failed(begin, yes)
	}
	if !h.usable() {
		t.Fatal("ejected though a success stood between the failures")
	}
	h.failed(begin, yes)
	if h.usable() || h.state() != "ejected" {
		t.Errorf("state %s after five failures in a row", h.state())
	}
}

func TestEjectionNeedsAProbeAfterItsTime(t *testing.T) {
	var h health
	for range 5 {
		h.failed(begin, yes)
	}
	h.probed(begin.Add(ejectFirst/2), nil)
	if h.usable() {
		t.Error("back before its time")
	}
	h.probed(h.until, errProbe)
	if h.usable() {
		t.Error("back after a failed probe")
	}
	h.probed(h.until, nil)
	if !h.usable() {
		t.Error("not back after its time and a good probe")
	}
	h.failed(h.until, yes)
	if h.usable() {
		t.Error("the first failure after coming back did not eject again")
	}
}

func TestRelapsesDouble(t *testing.T) {
	var h health
	now := begin
	out := func() time.Duration {
		for h.usable() {
			h.failed(now, yes)
		}
		d := h.until.Sub(now)
		now = h.until
		h.probed(now, nil)
		return d
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		want *= time.Second
		if got := out(); got < want || got > want*5/4 {
			t.Errorf("ejection %d lasts %s, want %s and at most a quarter more", i+1, got, want)
		}
	}
	now = now.Add(2 * forgetEjectsAfter)
	h.succeeded()
	if got := out(); got > 2*time.Second {
		t.Errorf("after a long time without, an ejection lasts %s", got)
	}
}

func TestEjectionIsCapped(t *testing.T) {
	var h health
	for range 50 {
		h.failed(begin, no)
	}
	if !h.usable() {
		t.Error("ejected though it must not be")
	}
	h.failed(begin, yes)
	if h.usable() {
		t.Error("not ejected once it may be")
	}
}

func TestTwoFailedProbesTakeDown(t *testing.T) {
	var h health
	h.probed(begin, errProbe)
	if !h.usable() {
		t.Error("down after one failed probe")
	}
	h.probed(begin, errProbe)
	if h.usable() || h.state() != "down" {
		t.Errorf("state %s after two failed probes", h.state())
	}
	h.probed(begin, nil)
	if !h.usable() {
		t.Error("not up after a good probe")
	}
}
