package colo

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/openai"
	"colonnade/reasons"
)

// reservedForReturn is the least part of a deadline that a server keeps for the way back, when it forwards a request.
const reservedForReturn = 50 * time.Millisecond

// mayForward reports whether this server forwards a request that its colo has refused to the next stop of the request's token: the colo is out
// of capacity, no engine has seen the request, time is left, and the server there is not silent. A server to which this colo has no way
// becomes silent, too. In all other cases, the entry decides, since only the entry retries.
func (c *call) mayForward(refused *peer.Answer) bool {
	return refused.Response == nil && refused.Verdict.Kind == hop.VerdictOOC && c.attempts == c.withdrawn &&
		len(c.token.Onward) > 0 && c.token.HopsLeft > 0 && c.Context.Err() == nil && c.timeForNext() > 0 &&
		!c.server.sender.Watcher.IsSilent(serverAt(&c.token.Onward[0]))
}

// serverAt returns the server of a stop. An older entry does not say which protocol it speaks.
func serverAt(s *hop.Stop) peer.Server {
	return peer.Server{Colo: s.Colo, Node: s.Node, Address: s.Address, Boot: s.Boot, Protocol: max(s.Protocol, hop.NodeNamesProtocol)}
}

// timeForNext returns the time that is left for the request at the next stop.
func (c *call) timeForNext() time.Duration {
	return time.Until(earlier(c.firstByteDeadline, c.deadline)) - c.reserveForReturn()
}

// reserveForReturn returns the part of the request's time that is kept for the way back from the next stop.
func (c *call) reserveForReturn() time.Duration {
	return max(reservedForReturn, 2*time.Duration(c.token.Onward[0].RoundTrip))
}

// forwardToNext forwards a request that this colo has refused to the next stop of its token, and returns the answer from there, with the verdicts of
// all servers that did not serve the request.
func (c *call) forwardToNext(refused *peer.Answer) (*peer.Answer, error) {
	s := c.server
	visits := []hop.Visit{refused.Visit(s.config.Colo, s.config.Node)}
	to := serverAt(&c.token.Onward[0])
	r := c.forwardRequest(refused)
	c.logForwardBegin()
	answer, err := s.sender.Send(c.Context, to, r, c.mayGiveUp(refused))
	var last hop.Visit // of the server that was asked last, if it does not answer
	if err == nil && mayFollow(answer) {
		last.Queued, last.Verdict.Waited = answer.Queued, answer.Verdict.Waited
		answer, err = c.follow(&to, r, answer, c.mayGiveUp(refused))
	}
	c.firstByte = time.Now()
	c.noteForwardedTo(to, answer)
	if err != nil {
		last.Colo, last.Node = to.Colo, to.Node
		return c.forwardFailed(refused, visits, last, err)
	}
	answer.HasTook = false // it says how far that server is, not how far this one is
	if answer.Response == nil {
		if visits = append(visits, answer.Visits...); len(answer.Visits) == 0 {
			visits = append(visits, answer.Visit(to.Colo, to.Node))
		}
		return c.forwardRefused(refused, visits), nil
	}
	answer.Visits = slices.Concat(visits, answer.Visits)
	if answer.ServedBy == "" {
		answer.ServedBy = hop.NodeName(to.Colo, to.Node)
	}
	return c.forwardServed(answer), nil
}

// mayGiveUp reports whether the request could go elsewhere if the server of the next stop were lost: as the entry knows, or since the request may
// wait here.
func (c *call) mayGiveUp(refused *peer.Answer) bool {
	return !c.token.Onward[0].NoAlternative || mayWaitHere(c.token, refused.Verdict)
}

// mayWaitHere reports whether a request that was refused may come back to wait.
func mayWaitHere(t *hop.Token, v hop.Verdict) bool { return t.Wait == hop.WaitSpill && v.MayWait }

// mayFollow reports whether a request goes on to the home that a server has named: its address is known, it knows servers by COLO/NODE, and no
// engine of the server has seen the request, since only the entry counts such attempts.
func mayFollow(a *peer.Answer) bool {
	v := &a.Verdict
	return v.Kind == hop.VerdictMoved && v.Address != "" && v.Protocol >= hop.NodeNamesProtocol && a.Attempts == 0
}

// follow sends a request to the home that a server has named, which to is from then on. It is followed once; the entry knows better after that.
// The time in the queue of that server counts as time in the queue of the home.
func (c *call) follow(to *peer.Server, r *peer.Request, moved *peer.Answer, mayGiveUp bool) (*peer.Answer, error) {
	v, spent := moved.Verdict, time.Since(c.forward.at)
	to.Node, to.Address, to.Boot, to.Protocol = v.To, v.Address, v.Boot, v.Protocol
	r.Token.Waited += hop.Millis(moved.Queued)
	r.Token.Rejoin, r.Token.Revision = v.Waited, max(r.Token.Revision, v.Revision)
	r.Token.Spend(spent)
	if r.Limits.FirstByte > 0 {
		r.Limits.FirstByte = max(r.Limits.FirstByte-spent, time.Millisecond)
	}
	answer, err := c.server.sender.Send(c.Context, *to, r, mayGiveUp)
	switch {
	case err != nil:
		return nil, err
	case len(answer.Visits) > 0:
		answer.Visits[0].Queued += moved.Queued
	default:
		answer.Queued += moved.Queued
	}
	return answer, nil
}

// forwardRequest returns the request to the next stop.
func (c *call) forwardRequest(refused *peer.Answer) *peer.Request {
	stop, now := c.token.Onward[0], time.Now()
	c.forward = &forward{at: now}
	c.trace.BeginHop(now)
	t := *c.token
	t.Headers = nil // the client signs those of its own
	t.Visited = c.coloPath()
	t.Onward = stopsAfterNext(c.token, refused.Verdict)
	t.HopsLeft--
	t.Waited += hop.Millis(c.queued)
	t.Rejoin, t.Unanswered, t.Revision, t.ReturnProbability = false, nil, stop.Revision, stop.ReturnProbability
	t.WaitBelow = waitBelow(c.token, refused.Verdict)
	t.Total = hop.Millis(c.deadline.Sub(now))
	if !c.firstByteDeadline.IsZero() {
		t.FirstByte = hop.Millis(c.firstByteDeadline.Sub(now))
	}
	t.Spend(c.reserveForReturn())
	r := &peer.Request{
		Token:    t,
		Route:    c.request.Route,
		Fields:   peer.AppendForNode(peer.AppendForwarded(nil, c.model.ForwardHeaders, c.headerToPassOn), c.request.Field),
		Body:     c.raw,
		Progress: c.request.Progress,
		Tick:     c.request.Tick,

		AnswerModel: c.request.AnswerModel,
		Parts:       c.body.StreamParts(),
		Limits: peer.Limits{
			Connect: c.model.Timeouts.Connect.Std(),
			End:     c.deadline,
		},
	}
	if !c.firstByteDeadline.IsZero() {
		r.Limits.FirstByte = max(c.firstByteDeadline.Sub(now), 0) + peer.Margin(len(t.Onward))
	}
	if c.body.Stream {
		r.Limits.Idle = c.model.Timeouts.Idle.Std() + peer.Margin(len(t.Onward))
	}
	return r
}

// stopsAfterNext returns the stops that the next stop gets.
func stopsAfterNext(t *hop.Token, refused hop.Verdict) []hop.Stop {
	stops := slices.Clone(t.Onward[1:])
	if mayWaitHere(t, refused) {
		for i := range stops {
			stops[i].NoAlternative = false
		}
	}
	return stops
}

// waitBelow returns [hop.Token.WaitBelow] for the next stop. If that is the last colo of the plan, it is the shortest expected wait of the colos
// before: the last try would be there, so the last colo lets the request wait for as long.
func waitBelow(t *hop.Token, v hop.Verdict) hop.Millis {
	own := hop.Millis(v.Expected)
	if !t.Onward[0].Last || !v.MayWait || own == 0 || t.WaitBelow > 0 && t.WaitBelow < own {
		return t.WaitBelow
	}
	return own
}

// forwardFailed returns the answer to a request that went on to a server which did not answer, with a visit that has no verdict yet. The entry
// decides what follows.
func (c *call) forwardFailed(refused *peer.Answer, visits []hop.Visit, last hop.Visit, err error) (*peer.Answer, error) {
	failure := peer.ClassifyFailure(err, c.deadline)
	if failure.Kind == peer.FailureEnded && !errors.Is(err, errDrained) {
		c.logForwardCancelled(err)
		return nil, err
	}
	c.server.config.Logger.Warn("forwarding to the next colo failed", "request_id", c.token.RequestID, "colo", last.Colo, "server", last.Node, "error", err)
	hadPlace := last.Verdict.Waited
	last.Verdict = verdictOfFailure(failure)
	last.Verdict.Waited = hadPlace
	if failure.Kind == peer.FailureEnded {
		c.logForwardCancelled(err)
	}
	return c.forwardRefused(refused, append(visits, last)), nil
}

// verdictOfFailure returns the verdict about a server that did not answer.
func verdictOfFailure(f peer.Failure) hop.Verdict {
	switch {
	case f.Kind == peer.FailureEnded: // by a shutdown; an engine may have begun to generate
		return hop.Verdict{Kind: hop.VerdictError, Number: openai.NumberUnavailable, Reason: reasons.Draining, Final: true}
	case f.Kind == peer.FailureNotConnected, f.Kind == peer.FailureNotSent, f.Kind == peer.FailureHeadTooLarge, f.NotRead,
		f.Kind == peer.FailureNoVerdict && f.Status == http.StatusForbidden: // it rejects this node, and perhaps not the entry
		return hop.Verdict{Kind: hop.VerdictUnread, Number: openai.NumberUnavailable, Reason: reasons.NoServer}
	case f.Kind == peer.FailureLate:
		return hop.Verdict{Kind: hop.VerdictError, Number: openai.NumberInferenceTimeout, Reason: reasons.TotalTimeout, Final: true}
	case f.Kind == peer.FailureNoFirstByte:
		return hop.Verdict{Kind: hop.VerdictError, Number: openai.NumberInferenceTimeout, Reason: reasons.FirstByteTimeout, Final: true}
	case f.Kind == peer.FailureCut: // the engine may have generated an answer
		return hop.Verdict{Kind: hop.VerdictError, Number: openai.NumberEngineFailed, Reason: reasons.ColoUnreachable, Final: true}
	}
	return hop.Verdict{Kind: hop.VerdictLost, Number: openai.NumberEngineFailed, Reason: reasons.ColoUnreachable}
}

// forwardRefused returns the answer to a request that went on and was not served: this colo's own, with those of the others.
func (c *call) forwardRefused(refused *peer.Answer, visits []hop.Visit) *peer.Answer {
	c.logForwardRefused(peer.ErrorOf(visits[len(visits)-1].Verdict))
	a := *refused
	a.Visits = visits
	return &a
}

// forwardServed returns the answer of another colo as this one relays it.
func (c *call) forwardServed(answer *peer.Answer) *peer.Answer {
	response := answer.Response
	if body, whole := response.Body(); whole {
		c.logForwarded(response.Status(), int64(len(body)), relay.Outcome{Kind: relay.OutcomeCompleted})
		return answer
	}
	answer.OnOutcome = func(end relay.Outcome, _ time.Duration) { c.logForwarded(response.Status(), response.Size(), end) }
	answer.OnClose = c.close
	return answer
}
