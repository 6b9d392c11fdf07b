package entry

import (
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// failedForward handles a forward that ended without an answer.
func (c *call) failedForward(at attempt, err error) {
	var noVerdict *peer.NoVerdictError
	if errors.As(err, &noVerdict) {
		c.noVerdict(at, noVerdict)
		return
	}
	if errors.Is(err, errSilent) {
		c.silentServer(at, err)
		return
	}
	var failed *transport.ExchangeError
	if !errors.As(err, &failed) {
		return // the context has ended
	}
	c.entry.metrics.ForwardFailure(at.Colo.Name)
	c.entry.config.Logger.Warn("forward failed", "request_id", c.id, "colo", at.Colo.Name, "server", at.server().Node, "error", err)
	connecting, now := failed.Phase == transport.PhaseConnect, time.Now()
	late := failed.Timeout && !now.Before(c.deadline)
	// A colo that began to answer was reached, and one that timed out after connecting may just be slow. A shortage on this machine is
	// no evidence about the colo, nor is a request that had no time left.
	ourFault := errors.Is(err, peer.ErrNotSigned) || netconn.IsLocalShortage(err)
	if failed.Phase != transport.PhaseStream && (!failed.Timeout || connecting && !late) && !ourFault {
		c.entry.observed.noteUnreached(at.server(), failed, now)
	}
	switch {
	case late:
		c.attempts.fail(openai.InferenceTimeout(reasons.TotalTimeout))
	case connecting && ourFault:
		c.attempts.notSent(openai.Unavailable(reasons.NoServer, time.Second))
	case connecting:
		c.attempts.notConnected(at, openai.Unavailable(reasons.NoServer, time.Second))
	case failed.Timeout:
		c.attempts.fail(c.blameDeadline(openai.InferenceTimeout(reasons.FirstByteTimeout)))
	case failed.Phase == transport.PhaseStream:
		c.attempts.fail(openai.EngineFailed(reasons.ColoUnreachable))
	default:
		c.attempts.serverLost(at, openai.EngineFailed(reasons.ColoUnreachable), c.retry)
	}
}

// silentServer handles an attempt that was given up since its server showed no sign of life.
func (c *call) silentServer(at attempt, err error) {
	c.entry.metrics.ForwardFailure(at.Colo.Name)
	c.entry.config.Logger.Warn("forward given up", "request_id", c.id, "colo", at.Colo.Name, "server", at.server().Node, "error", err)
	now := time.Now()
	c.entry.observed.noteUnreached(at.server(), err, now)
	switch {
	case !now.Before(c.deadline):
		c.attempts.fail(openai.InferenceTimeout(reasons.TotalTimeout))
	case !c.firstByteDeadline.IsZero() && c.firstByteDeadline.Sub(now) <= reservedForReturn:
		c.attempts.fail(openai.OverDeadline()) // there is no time to go on
	default:
		c.attempts.serverLost(at, openai.EngineFailed(reasons.ColoUnreachable), c.retry)
	}
}

// noVerdict handles an answer that is neither an engine's nor carries a verdict.
func (c *call) noVerdict(at attempt, err *peer.NoVerdictError) {
	if err.Status == fasthttp.StatusRequestHeaderFieldsTooLarge { // with the hop token beside them: the client's error
		c.attempts.fail(openai.HeadersTooLarge(server.MaxHead))
		return
	}
	c.entry.metrics.ForwardFailure(at.Colo.Name)
	c.entry.config.Logger.Error("colo answered without a verdict", "request_id", c.id, "colo", at.Colo.Name,
		"server", at.server().Node, "status", err.Status, "error", err.Err)
	if !err.Replayed { // a sender between the nodes must not make a colo look unreachable
		c.entry.observed.noteUnreached(at.server(), err.Err, time.Now())
	}
	failure := openai.EngineFailed(reasons.ColoUnreachable)
	if err.NotRead {
		failure = openai.Unavailable(reasons.NoServer, time.Second)
	}
	c.attempts.serverLost(at, failure, c.retry)
}

// blameDeadline replaces a first-byte timeout by one that names the client's own deadline, if that has passed. The margin covers what
// is reserved for the way back, twice, since the colo rounds.
func (c *call) blameDeadline(e *openai.Error) *openai.Error {
	if e.Number == openai.NumberInferenceTimeout && e.Reason == reasons.FirstByteTimeout &&
		!c.firstByteDeadline.IsZero() && time.Now().After(c.firstByteDeadline.Add(-2*reservedForReturn)) {
		return openai.OverDeadline()
	}
	return e
}
