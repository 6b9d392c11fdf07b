package admission

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var (
	errCheck = errors.New("check failed")
	begin    = time.Unix(1_790_000_000, 0)
)

func yes() bool { return true }
func no() bool  { return false }

func TestFiveFailuresInARowEject(t *testing.T) {
	var h health
	for range 4 {
		h.failed(begin, "reset", yes)
	}
	h.succeeded()
	for range 4 {
		h.failed(begin, "reset", yes)
	}
	if !h.usable() {
		t.Fatal("ejected though a success stood between the failures")
	}
	h.failed(begin, "reset", yes)
	if h.usable() || h.state() != "ejected" {
		t.Errorf("state %s after five failures in a row", h.state())
	}
}

func TestEjectionEndsWithAHealthCheckAfterItsTime(t *testing.T) {
	var h health
	for range 5 {
		h.failed(begin, "reset", yes)
	}
	h.checked(begin.Add(minEjection/2), nil)
	if h.usable() {
		t.Error("readmitted before its time")
	}
	h.checked(h.until, errCheck)
	if h.usable() {
		t.Error("readmitted after a failed check")
	}
	h.checked(h.until, nil)
	if !h.usable() {
		t.Error("not readmitted after its time and a successful check")
	}
	h.failed(h.until, "reset", yes)
	if h.usable() {
		t.Error("the first failure after the readmission did not eject again")
	}
}

func TestEjectionsDoubleWithEachRelapse(t *testing.T) {
	var h health
	now := begin
	out := func() time.Duration {
		for h.usable() {
			h.failed(now, "reset", yes)
		}
		d := h.until.Sub(now)
		now = h.until
		h.checked(now, nil)
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
		h.failed(begin, "reset", no)
	}
	if !h.usable() {
		t.Error("ejected though it must not be")
	}
	h.failed(begin, "reset", yes)
	if h.usable() {
		t.Error("not ejected once it may be")
	}
}

func TestTwoFailedChecksTakeDown(t *testing.T) {
	var h health
	h.checked(begin, nil)
	h.checked(begin, errCheck)
	if !h.usable() {
		t.Error("down after one failed check")
	}
	h.checked(begin, errCheck)
	if h.usable() || h.state() != "down" {
		t.Errorf("state %s after two failed checks", h.state())
	}
	h.checked(begin, nil)
	if !h.usable() {
		t.Error("not up after a successful check")
	}
}

// An engine that has never answered is down after one failed check, and up after one that succeeds; then it is like any other.
func TestOneFailedCheckTakesANewEngineDown(t *testing.T) {
	var h health
	h.failed(begin, "x", yes)
	h.checked(begin, errCheck)
	if h.usable() || h.state() != "down" {
		t.Errorf("state %s after the first check has failed", h.state())
	}
	h.checked(begin, nil)
	if !h.usable() {
		t.Error("not up after a successful check")
	}
	if h.checked(begin, errCheck); !h.usable() {
		t.Error("down after one failed check, though it was up before")
	}
	h = health{}
	h.succeeded()
	if h.checked(begin, errCheck); !h.usable() {
		t.Error("down after one failed check, though it has answered a request")
	}
}

// A new engine is checked again soon, and less often the longer it does not answer.
func TestNewEnginesAreCheckedMoreOften(t *testing.T) {
	var h health
	for i, want := range []time.Duration{100, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		want *= time.Millisecond
		if got := h.checkInterval(5 * time.Second); got != want {
			t.Errorf("after %d failed checks the next comes in %s, want %s", i, got, want)
		}
		h.checked(begin, errCheck)
	}
	if got := h.checkInterval(50 * time.Millisecond); got != 50*time.Millisecond {
		t.Errorf("the next check comes in %s, want the 50 ms of the document", got)
	}
	h = health{}
	h.succeeded()
	if got := h.checkInterval(5 * time.Second); got != 5*time.Second {
		t.Errorf("the next check of an engine that answers comes in %s, want 5s", got)
	}
}

// The reason is the error behind the state, cut to a bounded length.
func TestReasonOfAState(t *testing.T) {
	var h health
	h.checked(time.Now(), errors.New(strings.Repeat("é", 200)))
	if want := strings.Repeat("é", maxReason/2); h.checkError != want {
		t.Errorf("got %q", h.checkError)
	}
	h.checked(time.Now(), errors.New("x"+strings.Repeat("é", 200)))
	if want := "x" + strings.Repeat("é", maxReason/2-1); h.checkError != want {
		t.Errorf("got %q, cut inside a character", h.checkError)
	}
	if h.checked(time.Now(), nil); h.reason() != "" {
		t.Errorf("after a successful check: %q", h.reason())
	}
	// Of an ejected engine it is the last failure of a request; of one that is down, that of the health check.
	for range failuresToEject {
		h.failed(begin, "cannot connect", yes)
	}
	if h.failed(begin, "reset", yes); h.state() != "ejected" || h.reason() != "reset" {
		t.Errorf("%s because of %q", h.state(), h.reason())
	}
	for range checksToTakeDown {
		h.checked(begin, errCheck)
	}
	if h.state() != "down" || h.reason() != errCheck.Error() {
		t.Errorf("%s because of %q", h.state(), h.reason())
	}
	if h.checked(begin.Add(time.Hour), nil); h.state() != "up" || h.reason() != "" {
		t.Errorf("%s because of %q", h.state(), h.reason())
	}
}
