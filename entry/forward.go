package entry

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// forward sends the request to one server and returns the answer up to its first byte.
func (c *call) forward(to *attempt) (*peer.Answer, error) {
	r := &c.first
	if !c.attemptBegan.IsZero() { // an earlier server may still read c.first
		r = new(peer.Request)
	}
	began := time.Now()
	c.attemptBegan = began
	c.beginHop(to, began)
	// One by one: a literal would be on the stack of a request that waits as well.
	r.Route, r.Fields = c.route, c.fields()
	r.Body, r.Described, r.Handshake = c.raw, c.described(), c.handshake
	r.Limits.Connect, r.Limits.FirstByte = c.model.Timeouts.Connect.Std(), c.firstByteTimeout(to, began)
	r.Limits.Idle, r.Limits.End = c.idleTimeout(to), c.deadline
	r.AnswerModel, r.Parts = c.answerName, c.body.StreamParts()
	c.setToken(&r.Token, to, began)
	if c.limits != nil {
		r.TakeUsage, r.StripUsage = true, c.body.Stream && !c.body.IncludeUsage
	}
	if c.queueEvents != nil {
		c.queueEvents.ResetProgress()
		r.Progress, r.Tick = c.queueEvents.ReportProgress, c.queueEvents.Tick
	}
	c.path = append(c.path, hop.NodeName(to.Colo.Name, to.server().Node))
	answer, err := c.carry(to, r)
	c.firstByte = time.Now()
	c.endUnserved(answer, err)
	return answer, err
}

// described returns what the body is; nil for a WebSocket, or if a bound on the output may have changed the body since it was read.
func (c *call) described() *openai.Body {
	if c.route.API == openai.Realtime || c.limited {
		return nil
	}
	return &c.body
}

// carry sends a request on its way. If it could go elsewhere, it is given up when its server shows no sign of life.
func (c *call) carry(to *attempt, r *peer.Request) (*peer.Answer, error) {
	if do := c.entry.local(to.server()); do != nil {
		return do(c.Context, r)
	}
	r.Token.KeepUsage = r.StripUsage
	return c.entry.sender.Send(c.Context, peerOf(to.server()), r, c.attempts.mayLose(to, c.entry.budget.Remaining()))
}

// setToken sets the hop token: what the next server must know of the request. A token that is returned would be twice on the stack of a request
// that waits.
func (c *call) setToken(t *hop.Token, to *attempt, now time.Time) {
	reserved := c.reserved(to.Colo)
	*t = hop.Token{
		RequestID:         c.id,
		ClientRequestID:   c.clientID,
		Source:            c.entry.config.Node,
		Account:           c.caller.Account.Name,
		Key:               c.caller.KeyID,
		Weight:            c.caller.Account.Weight,
		Priority:          c.priority,
		Concurrent:        c.caller.Account.Limits.Concurrent,
		Model:             c.model.Name,
		HopsLeft:          max(c.model.Retry.Hops-1, 0), // a model that allows no further hops still allows this one
		Attempt:           c.engineAttempts,
		RetriesLeft:       min(c.attempts.errorsLeft, c.entry.budget.Remaining()),
		EndpointsFailed:   c.attempts.endpointsFailed,
		Wait:              to.wait,
		WaitBelow:         hop.Millis(to.below),
		Waited:            hop.Millis(c.waited),
		Rejoin:            to.rejoin,
		Revision:          max(c.table.ServersRevision(to.Colo.Name), to.line.revision, 1), // 0 would be an entry that knows of one server for each colo
		Unanswered:        to.line.unanswered,
		ReturnProbability: to.returnProbability,
		Total:             hop.Millis(max(c.deadline.Sub(now)-reserved, time.Millisecond)),
		WantsProgress:     c.queueEvents != nil,
	}
	if !c.firstByteDeadline.IsZero() {
		t.FirstByte = hop.Millis(max(c.firstByteDeadline.Sub(now)-reserved, time.Millisecond))
	}
	t.PlaceOnward(to.Colo.Name, to.onward)
}

// local returns the way to a colo server that runs in this process, or nil for any other.
func (e *Entry) local(s *fleet.Server) peer.Func {
	if e.config.Local == nil {
		return nil
	}
	return e.config.Local(s)
}

func peerOf(s *fleet.Server) peer.Server {
	return peer.Server{Colo: s.Colo, Node: s.Node, Address: s.Address, Boot: s.Boot, Protocol: s.Protocol.Max}
}

// firstByteTimeout returns how long to wait for the first byte, if the client has a deadline for it.
func (c *call) firstByteTimeout(to *attempt, now time.Time) time.Duration {
	if c.firstByteDeadline.IsZero() {
		return 0
	}
	return max(c.firstByteDeadline.Sub(now), 0) + peer.Margin(len(to.onward))
}

// idleTimeout returns the longest silence of a stream.
func (c *call) idleTimeout(to *attempt) time.Duration {
	if c.body.Stream {
		return c.model.Timeouts.Idle.Std() + peer.Margin(len(to.onward))
	}
	return 0
}

// usualFields is how many header lines most forwarded requests have at most: content-type, accept and user-agent.
const usualFields = 3

// fields returns the request headers that are forwarded.
func (c *call) fields() []transport.Field {
	return peer.AppendForNode(c.engineFields(), c.headerForNode)
}

// headerForNode returns a request header that is for colo servers. A name of a session that cannot be one counts as none.
func (c *call) headerForNode(name string) string {
	switch name {
	case hop.HeaderSessionAffinity:
		if session := affinityHeader.Of(&c.rc.Request.Header); hop.IsSession(session) {
			return string(session)
		}
	case hop.HeaderEndpointReason:
		if c.caller.Account.Admin {
			return "1"
		}
	case hop.HeaderInternal:
		if c.requestedModel() != "" && !c.caller.Account.AllowExternal {
			return "1"
		}
	}
	return ""
}

// engineFields returns the request headers that engines get.
func (c *call) engineFields() []transport.Field {
	return peer.AppendForwarded(make([]transport.Field, 0, usualFields), c.model.ForwardHeaders, func(name string) string {
		value := c.forwardedHeader(name)
		if name == "Content-Type" && (value == "" && len(c.raw) > 0 || c.route.Dialect == openai.DialectOllama) {
			return "application/json" // the body was read as JSON; engines require the header
		}
		return c.trace.Header(name, value)
	})
}

// relay answers the client with the colo's answer. It reports whether that continues after the handler has returned.
func (c *call) relay(answer *peer.Answer) (streaming bool) {
	if answer.Response.Upgraded() {
		c.upgrade(answer)
		return true
	}
	c.headers()
	if !answer.EndUnknown && relay.WriteWhole(c.rc, answer.Response) {
		c.logWhole(answer.Response)
		return false
	}
	r := c.newRelay()
	r.EndUnknown = answer.EndUnknown
	answer.RelayBy(r)
	if answer.EndUnknown || answer.Response.Length() < 0 && !c.rc.Request.Header.IsHTTP11() { // which has no chunks
		relay.WriteUntilClose(c.rc, c.Request, r)
		return true
	}
	relay.WriteRest(c.rc, r)
	return true
}

// newRelay returns a relay without its Response, which the caller sets.
func (c *call) newRelay() *relay.Relay {
	r := &relay.Relay{
		Context: c.Context, Client: c.rc.Conn(), Stall: c.entry.config.WriteStall, RequestID: c.id,
		OnClose: func() {
			defer c.close()
			if c.answer != nil && c.answer.OnClose != nil {
				c.answer.OnClose()
			}
		},
	}
	r.OnOutcome = func(end relay.Outcome) {
		if r.Response == nil {
			c.logCancelled(analytics.Outcome(end.Kind))
			return
		}
		if c.answer.OnOutcome != nil {
			c.answer.OnOutcome(end, r.BlockedOnClient())
		}
		c.logStream(r.Response, end)
	}
	if c.capture != nil {
		r.OnWrite, r.OnWritten = c.capture.ResponseBody, c.capture.End
	}
	return r
}

// headers sets the headers of every answer to a client.
func (c *call) headers() { c.eachHeader(server.SetIn(&c.rc.Response.Header)) }

// eachHeader calls set with the name and value of each header that every answer to a client has.
func (c *call) eachHeader(set func(name server.HeaderName, value string)) {
	server.EachRequestID(c.route.Dialect, c.id, set)
	set(attemptsHeader, strconv.Itoa(c.engineAttempts))
	c.limits.eachHeader(set)
	if c.servedBy != nil { // then c.answer is the answer of that colo
		if c.answer.EndpointReason != "" && c.caller.Account.Admin {
			set(endpointReasonHeader, c.answer.EndpointReason)
		}
		set(coloHeader, c.servedBy.Name)
		if c.fallbacks != nil {
			set(modelHeader, c.model.Name)
		}
	}
	if len(c.path) > 1 {
		if colos := c.colosAsked(); len(colos) > 1 {
			set(coloPathHeader, strings.Join(colos, ", "))
		}
	}
	if c.servedBy != nil || c.waited > 0 { // a refused request may have waited, too
		set(queuedHeader, strconv.FormatInt(c.waited.Milliseconds(), 10))
	}
}

// refuse answers with an error, and logs the request as refused or failed.
func (c *call) refuse(e *openai.Error) {
	server.WriteErrorIn(c.rc, c.dialect(), e, c.id)
	c.headers()
	c.logRefusal(e)
}

// cancelled ends a request whose context has ended before the first byte: the client has gone, or the entry is shutting down.
func (c *call) cancelled() {
	e, outcome := openai.Unavailable(reasons.Draining, time.Second), analytics.OutcomeDrained
	if c.clientGone() {
		// The client may have closed only its sending side, and must not take silence for an answer.
		e, outcome = openai.Unavailable(reasons.ClientGone, 0), analytics.OutcomeClientGone
	}
	server.WriteErrorIn(c.rc, c.dialect(), e, c.id)
	c.logCancelled(outcome)
	c.rc.SetConnectionClose()
}

// clientGone reports whether the context has ended because the client has gone.
func (c *call) clientGone() bool { return errors.Is(context.Cause(c.Context), server.ErrClientGone) }
