package peer_test

import (
	"slices"
	"testing"
	"time"

	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
)

// Close calls each hook once, the last one even if another panics.
func TestAnswerClose(t *testing.T) {
	for _, panics := range []bool{false, true} {
		var called []string
		a := peer.Answer{
			OnOutcome: func(end relay.Outcome, _ time.Duration) {
				called = append(called, string(end.Kind))
				if panics {
					panic("a bug")
				}
			},
			OnClose: func() { called = append(called, "closed") },
		}
		for range 2 {
			func() {
				defer func() { _ = recover() }()
				a.Close()
			}()
		}
		if want := []string{string(relay.OutcomeClientGone), "closed"}; !slices.Equal(called, want) {
			t.Errorf("a hook that panics: %v; called %q, want %q", panics, called, want)
		}
	}
}
