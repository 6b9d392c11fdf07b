package peer

import (
	"errors"
	"net/http"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"
)

// ErrSilent is the cause by which an attempt is given up at a server that shows no sign of life.
var ErrSilent = errors.New("the server has shown no sign of life for a second")

// FailureKind says how a [Func] failed.
type FailureKind uint8

// The kinds of failures.
const (
	FailureEnded        FailureKind = iota // the request's context has ended
	FailureNotSent                         // nothing was sent, by a fault of this process: the request was not signed, or this machine lacks a resource
	FailureNotConnected                    // nothing was sent: the server could not be connected
	FailureLost                            // the request was sent, and the connection broke before the first byte
	FailureSilent                          // given up with [ErrSilent]; the request may have been sent
	FailureNoFirstByte                     // the first byte, or the rest of a whole response, did not arrive in time
	FailureLate                            // the request's own time is over
	FailureCut                             // the connection broke after the first byte
	FailureHeadTooLarge                    // the server could not read a head so large
	FailureNoVerdict                       // the server answered without a verdict, as it does if it rejects the hop token
	FailureReplayed                        // another sender has used the hop token before
)

// String returns a short name for traces. The end of a context is no failure, so its name is empty.
func (k FailureKind) String() string {
	return [...]string{"", "not_sent", "not_connected", "lost", "silent", "no_first_byte", "late", "cut", "head_too_large", "no_verdict", "replayed"}[k]
}

// Failure is a failed [Func], as its caller must know it to decide what follows.
type Failure struct {
	Kind FailureKind
	// Unresponsive reports evidence that the server does not answer. There is none in a shortage on this machine, in a request that had no
	// time left, in a server that began to answer, or in one that was connected and did not answer in time, which may just be slow.
	Unresponsive bool
	NotRead      bool  // of FailureNoVerdict: the server cannot have read the request, or has refused it unread
	Rejected     bool  // of FailureNoVerdict: the server does not take this node for one of the fleet
	Status       int   // of an answer without a verdict; else 0
	Err          error // the cause, without Status
}

// ClassifyFailure returns the failure in the error of a [Func], for a request whose time ends at deadline.
func ClassifyFailure(err error, deadline time.Time) Failure {
	var noVerdict *NoVerdictError
	var failed *transport.ExchangeError
	switch {
	case errors.As(err, &noVerdict):
		return classifyNoVerdict(noVerdict)
	case errors.Is(err, ErrSilent):
		return Failure{Kind: FailureSilent, Unresponsive: true, Err: err}
	case errors.As(err, &failed):
		return classifyExchange(failed, !time.Now().Before(deadline))
	}
	return Failure{Err: err}
}

func classifyNoVerdict(err *NoVerdictError) Failure {
	f := Failure{Kind: FailureNoVerdict, Unresponsive: true, NotRead: err.NotRead, Rejected: err.Rejected, Status: err.Status, Err: err.Err}
	switch {
	case err.Status == http.StatusRequestHeaderFieldsTooLarge:
		f.Kind, f.Unresponsive = FailureHeadTooLarge, false
	case err.Replayed: // a sender between the nodes must not make a server look unreachable
		f.Kind, f.Unresponsive = FailureReplayed, false
	}
	return f
}

func classifyExchange(err *transport.ExchangeError, isOver bool) Failure {
	f := Failure{Kind: FailureLost, Err: err}
	connecting := err.Phase == transport.PhaseConnect
	ourFault := errors.Is(err, ErrNotSigned) || netconn.IsLocalShortage(err)
	switch {
	case err.Timeout && isOver:
		f.Kind = FailureLate
	case connecting && ourFault:
		f.Kind = FailureNotSent
	case connecting:
		f.Kind = FailureNotConnected
	case err.Timeout:
		f.Kind = FailureNoFirstByte
	case err.Phase == transport.PhaseStream:
		f.Kind = FailureCut
	}
	f.Unresponsive = f.Kind == FailureNotConnected || f.Kind == FailureLost && !ourFault
	return f
}
