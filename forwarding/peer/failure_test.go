package peer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
)

// The error of a hop says how far the request got, and whether the failure is evidence that the server cannot be reached.
func TestClassifyFailure(t *testing.T) {
	t.Parallel()
	broken, shortage := errors.New("broken"), fmt.Errorf("dial: %w", syscall.EMFILE)
	exchange := func(phase transport.Phase, timeout bool, err error) error {
		return &transport.ExchangeError{Phase: phase, Timeout: timeout, Err: err}
	}
	const inTime, late = time.Hour, -time.Millisecond
	f := func(err error, left time.Duration, want peer.Failure) {
		t.Helper()
		got := peer.ClassifyFailure(err, time.Now().Add(left))
		if want.Err == nil {
			want.Err = err
		}
		if got != want {
			t.Errorf("%v: got %+v, want %+v", err, got, want)
		}
	}
	f(context.Canceled, inTime, peer.Failure{Kind: peer.FailureEnded})
	f(broken, late, peer.Failure{Kind: peer.FailureEnded})

	f(exchange(transport.PhaseConnect, false, broken), inTime, peer.Failure{Kind: peer.FailureNotConnected, Unresponsive: true})
	f(exchange(transport.PhaseConnect, false, broken), late, peer.Failure{Kind: peer.FailureNotConnected, Unresponsive: true})
	f(exchange(transport.PhaseConnect, true, broken), inTime, peer.Failure{Kind: peer.FailureNotConnected, Unresponsive: true})
	f(exchange(transport.PhaseConnect, true, broken), late, peer.Failure{Kind: peer.FailureLate})
	f(exchange(transport.PhaseConnect, false, shortage), inTime, peer.Failure{Kind: peer.FailureNotSent})
	f(exchange(transport.PhaseConnect, false, fmt.Errorf("%w: no key", peer.ErrNotSigned)), inTime, peer.Failure{Kind: peer.FailureNotSent})

	f(exchange(transport.PhaseFirstByte, false, broken), inTime, peer.Failure{Kind: peer.FailureLost, Unresponsive: true})
	f(exchange(transport.PhaseFirstByte, false, broken), late, peer.Failure{Kind: peer.FailureLost, Unresponsive: true})
	f(exchange(transport.PhaseFirstByte, false, shortage), inTime, peer.Failure{Kind: peer.FailureLost})
	f(exchange(transport.PhaseFirstByte, true, broken), inTime, peer.Failure{Kind: peer.FailureNoFirstByte})
	f(exchange(transport.PhaseFirstByte, true, broken), late, peer.Failure{Kind: peer.FailureLate})
	f(peer.ErrSilent, inTime, peer.Failure{Kind: peer.FailureSilent, Unresponsive: true})
	f(peer.ErrSilent, late, peer.Failure{Kind: peer.FailureSilent, Unresponsive: true})

	f(exchange(transport.PhaseStream, false, broken), inTime, peer.Failure{Kind: peer.FailureCut})
	f(exchange(transport.PhaseStream, true, broken), inTime, peer.Failure{Kind: peer.FailureNoFirstByte})
	f(exchange(transport.PhaseStream, true, broken), late, peer.Failure{Kind: peer.FailureLate})

	f(&peer.NoVerdictError{Status: 500, Err: broken}, inTime, peer.Failure{Kind: peer.FailureNoVerdict, Unresponsive: true, Status: 500, Err: broken})
	f(&peer.NoVerdictError{Status: 403, NotRead: true, Err: broken}, inTime,
		peer.Failure{Kind: peer.FailureNoVerdict, Unresponsive: true, NotRead: true, Status: 403, Err: broken})
	f(&peer.NoVerdictError{Status: 403, Rejected: true, Err: broken}, inTime,
		peer.Failure{Kind: peer.FailureNoVerdict, Unresponsive: true, Rejected: true, Status: 403, Err: broken})
	f(&peer.NoVerdictError{Status: 403, Replayed: true, Err: broken}, inTime, peer.Failure{Kind: peer.FailureReplayed, Status: 403, Err: broken})
	f(&peer.NoVerdictError{Status: http.StatusRequestHeaderFieldsTooLarge, Err: broken}, inTime,
		peer.Failure{Kind: peer.FailureHeadTooLarge, Status: http.StatusRequestHeaderFieldsTooLarge, Err: broken})
}
