package entry

import (
	"time"

	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/openai"
	"colonnade/reasons"
)

// failedForward handles a forward that ended without an answer.
func (c *call) failedForward(at attempt, err error) {
	f := peer.ClassifyFailure(err, c.deadline)
	c.logFailedForward(at, &f)
	if f.Unresponsive {
		c.entry.observed.noteUnresponsive(at.server(), f.Err, time.Now())
	}
	if f.Rejected {
		c.entry.observed.noteRejected(at.Colo.Name)
	}
	switch f.Kind {
	case peer.FailureEnded:
	case peer.FailureHeadTooLarge: // with the hop token beside them: the client's error
		c.attempts.fail(openai.HeadersTooLarge(server.MaxHead))
	case peer.FailureLate:
		c.attempts.fail(openai.InferenceTimeout(reasons.TotalTimeout))
	case peer.FailureNotSent:
		c.attempts.notSent(openai.Unavailable(reasons.NoServer, time.Second))
	case peer.FailureNotConnected:
		c.attempts.notConnected(at, openai.Unavailable(reasons.NoServer, time.Second))
	case peer.FailureNoFirstByte:
		c.attempts.fail(c.blameDeadline(c.reserved(at.Colo), openai.InferenceTimeout(reasons.FirstByteTimeout)))
	case peer.FailureCut:
		c.attempts.fail(openai.EngineFailed(reasons.ColoUnreachable))
	case peer.FailureSilent:
		c.silentServer(at)
	default: // FailureLost, FailureNoVerdict, FailureReplayed
		failure := openai.EngineFailed(reasons.ColoUnreachable)
		if f.NotRead {
			failure = openai.Unavailable(reasons.NoServer, time.Second)
		}
		c.attempts.serverLost(at, failure, c.retry)
	}
	if f.Unresponsive {
		c.noteLeft(at, c.attemptBegan)
	}
}

// logFailedForward counts and logs a forward that has failed, unless that is the client's doing.
func (c *call) logFailedForward(at attempt, f *peer.Failure) {
	if f.Kind == peer.FailureEnded || f.Kind == peer.FailureHeadTooLarge {
		return
	}
	c.entry.metrics.ForwardFailure(at.Colo.Name)
	log, facts := c.entry.config.Logger, []any{"request_id", c.id, "colo", at.Colo.Name, "server", at.server().Node}
	switch f.Kind {
	case peer.FailureNoVerdict, peer.FailureReplayed:
		log.Error("colo answered without a verdict", append(facts, "status", f.Status, "error", f.Err)...)
	case peer.FailureSilent:
		log.Warn("forward given up", append(facts, "error", f.Err)...)
	default:
		log.Warn("forward failed", append(facts, "error", f.Err)...)
	}
}

// silentServer handles an attempt that was given up since its server showed no sign of life.
func (c *call) silentServer(at attempt) {
	now := time.Now()
	switch {
	case !now.Before(c.deadline):
		c.attempts.fail(openai.InferenceTimeout(reasons.TotalTimeout))
	case c.firstByteLeft() <= reservedForReturn:
		c.attempts.fail(openai.OverDeadline()) // there is no time to go on
	default:
		c.attempts.serverLost(at, openai.EngineFailed(reasons.ColoUnreachable), c.retry)
	}
}

// blameDeadline replaces a first-byte timeout by one that names the client's own deadline, if that has passed. The margin covers what
// was reserved of it for the way back, twice, since the colo rounds.
func (c *call) blameDeadline(reserved time.Duration, e *openai.Error) *openai.Error {
	if e.Number == openai.NumberInferenceTimeout && e.Reason == reasons.FirstByteTimeout &&
		!c.firstByteDeadline.IsZero() && time.Now().After(c.firstByteDeadline.Add(-2*reserved)) {
		return openai.OverDeadline()
	}
	return e
}
