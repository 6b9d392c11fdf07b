package colo

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// The peer listener is an adapter around [Server.Do]: it makes a peer.Request of what another node sends, and an HTTP response of
// the peer.Answer.

// serve answers one request or question of another node. fasthttp writes the head of the answer as soon as serve has returned.
func (s *Server) serve(rc *fasthttp.RequestCtx) {
	if isQuestion(rc) {
		s.serveQuestion(rc)
		rc.Response.Header.Set(hop.HeaderTook, took(rc.Time()))
		return
	}
	s.serveExchange(server.TextExchange(rc))
}

// serveExchange answers one request of another node.
func (s *Server) serveExchange(x *server.Exchange) { s.answer(x, s.inflight.Begin(), nil) }

// answer answers a request in flight. c is nil for a request that has just arrived; one that was suspended comes back with its call.
func (s *Server) answer(x *server.Exchange, in *server.Request, c *call) {
	suspended, streaming := false, false
	defer func() {
		if suspended {
			return
		}
		x.SetField(hop.HeaderTook, took(x.Arrived))
		if !streaming {
			in.Close()
		}
	}()
	var answer *peer.Answer
	defer func() {
		if server.LogPanic(s.config.Logger, "peer listener", recover()) {
			if answer != nil {
				answer.Close()
			}
			s.write(x, "", internalError(true))
		}
	}()
	if c == nil {
		if c = s.begin(x, in); c == nil {
			return
		}
	}
	var err error
	switch answer, err = c.do(); {
	case errors.Is(err, permits.ErrWaits):
		suspended = true
		x.Suspend(c.onResolved, func() { s.answer(x, in, c) })
	case err != nil:
		s.write(x, c.token.RequestID, clientGone())
	case answer.Response == nil:
		s.write(x, c.token.RequestID, answer)
	default:
		streaming = s.relay(x, in, c.token.RequestID, answer)
	}
}

// begin reads a request and returns its call; nil if the request was answered.
func (s *Server) begin(x *server.Exchange, in *server.Request) *call {
	r, refused := s.receive(x, in)
	if refused != nil {
		s.write(x, "", refused)
		return nil
	}
	if err := in.WatchClient(x.Conn()); err != nil {
		s.config.Logger.Error("cannot watch the client", "error", err)
		s.write(x, r.Token.RequestID, internalError(false))
		return nil
	}
	c := s.newCall(in, r)
	c.detached = x.Text() == nil
	return c
}

// took returns the time since a request has arrived: see [server.Exchange].
func took(arrived time.Time) string { return hop.FormatTook(time.Since(arrived)) }

// receive reads a request. It verifies the token before it believes anything else and before it reads the body. A token that is sent
// twice must not cost the memory of two bodies, so it is used up before the body has arrived: a sender that fails signs again. It
// returns an answer without a verdict to a client that is not a node of the fleet.
func (s *Server) receive(x *server.Exchange, in *server.Request) (*peer.Request, *peer.Answer) {
	var read head
	now := time.Now()
	e, err := s.readHead(&read, &x.Head, now)
	if e != nil {
		return nil, &peer.Answer{Error: e}
	}
	if err != nil {
		return nil, s.forbid(x, err)
	}
	if err := server.VerifyTokenSource(s.config.Peers, x.Conn(), &read.verified.Token); err != nil {
		x.CloseConn() // a node with another certificate must show it on a new connection
		return nil, s.forbid(x, err)
	}
	if err := s.claim(&read.verified, now); err != nil {
		return nil, s.forbid(x, err)
	}
	r := &peer.Request{Route: read.route}
	r.Token = read.verified.Token // in the literal, it would be on the stack as well
	old := read.verified.Old
	r.Lookup = func(name string) string {
		if !old && !r.Token.Forwards(name) {
			return ""
		}
		return string(x.Field(name))
	}
	if r.Body, e = x.ReadBody(in, s.maxBody(), r.Token.Account); e != nil {
		// Another colo may get it, or know already that the model takes so much.
		return nil, &peer.Answer{Error: e, Verdict: hop.Verdict{Kind: hop.VerdictError, Reason: cmp.Or(e.Reason, e.Code)}}
	}
	if err := read.verified.VerifyBody(r.Body); err != nil {
		return nil, s.forbid(x, err)
	}
	if r.Route.API == openai.Realtime {
		if r.Handshake, e = readHandshake(x); e != nil {
			return nil, &peer.Answer{Error: e, Verdict: hop.Verdict{Kind: hop.VerdictError, Final: true}}
		}
	}
	if r.Token.WantsProgress && x.Text() != nil {
		var last hop.Progress
		r.Progress = func(p hop.Progress) {
			if p == last {
				return
			}
			last = p
			if err := relay.WriteProgress(x.Conn(), p); err != nil {
				in.Cancel(errors.Join(server.ErrClientGone, err)) // nothing else can be written to it either
			}
		}
	}
	return r, nil
}

// head is the content of a request's head, before any table is asked.
type head struct {
	route    openai.Route
	verified hop.Verified
}

// readHead checks the head and verifies the token; err means that no node of the fleet has signed it. The length of the
// body is checked later: the other node's table may be newer than ours.
func (s *Server) readHead(read *head, h *server.Head, now time.Time) (e *openai.Error, err error) {
	if e = h.Check(); e != nil {
		return e, nil
	}
	if read.route, e = openai.ParseRoute(h.Method(), h.Target()); e != nil {
		return e, nil
	}
	_, target, _, _ := openai.SplitTarget(h.Target())
	return nil, s.verifyHead(&read.verified, h, string(target), now)
}

// verifyHead verifies the token in a head that was checked.
func (s *Server) verifyHead(v *hop.Verified, h *server.Head, target string, now time.Time) error {
	return s.config.Keys.VerifyHead(v, h.Field(hop.HeaderToken), &hop.Binding{
		Audience: s.name, OldAudience: s.config.Node, Method: string(h.Method()), Target: target,
		AppendHeader: func(dst []byte, name string) []byte { return append(dst, h.Field(name)...) },
	}, now)
}

// rejectEarly reports by the head alone that a request will be refused.
func (s *Server) rejectEarly(h *fasthttp.RequestHeader) bool {
	var read head
	e, err := s.readHead(&read, server.TextHead(h), time.Now())
	return e != nil || err != nil || !read.verified.Old && s.replays.Check(&read.verified.Token) != nil
}

// relay writes the engine's answer. It reports whether the answer continues after the handler has returned.
func (s *Server) relay(x *server.Exchange, in *server.Request, id string, a *peer.Answer) (streaming bool) {
	if a.Session != nil {
		runSession(x, in, a)
		return true
	}
	eachField(a, x.SetField)
	if a.EndUnknown {
		x.SetField(hop.HeaderEnd, hop.EndUnknown)
	}
	if relay.AnswerWhole(x, a.Response) {
		return false
	}
	r := &relay.Relay{
		Context: in.Context, Client: x.Conn(), Stall: s.config.WriteStall, RequestID: id, EndUnknown: a.EndUnknown,
		OnClose: func() {
			defer in.Close()
			a.OnClose()
		},
	}
	r.OnOutcome = func(end relay.Outcome) { a.OnOutcome(end, r.BlockedOnClient()) }
	a.RelayBy(r)
	relay.AnswerRest(x, r)
	return true
}

// readHandshake returns the handshake of a realtime session, which needs a connection of its own.
func readHandshake(x *server.Exchange) (*transport.Handshake, *openai.Error) {
	if rc := x.Text(); rc != nil {
		return relay.ReadHandshake(rc)
	}
	return nil, openai.InvalidRequest("", "a WebSocket needs a connection of its own")
}

// runSession runs a realtime session on the connection of its request, after the handler has returned.
func runSession(x *server.Exchange, in *server.Request, a *peer.Answer) {
	eachField(a, func(name, value string) {
		a.Session.Fields = append(a.Session.Fields, transport.Field{Name: name, Value: value})
	})
	a.Session.Fields = append(a.Session.Fields, transport.Field{Name: hop.HeaderTook, Value: took(x.Arrived)})
	x.Text().HijackSetNoResponse(true) // the session answers
	in.Hijack(x.Text(), func(client *netconn.Conn) {
		defer in.Close()
		defer a.OnClose()
		a.Session.Run(client)
	})
}

// write answers a request that was not served: with a verdict for another node, or without one for any other client.
func (s *Server) write(x *server.Exchange, id string, a *peer.Answer) {
	x.WriteError(a.Error, id)
	if a.Verdict.Kind == "" {
		x.CloseConn() // such a client may have more of the kind on its way
		return
	}
	eachField(a, x.SetField)
	v := a.Verdict
	v.Number = a.Error.Number
	x.SetField(hop.HeaderVerdict, v.String())
}

// internalError returns the answer after a failure of this server. If it were inlined, its memory would be on the stack of each request
// that waits.
//
//go:noinline
func internalError(final bool) *peer.Answer {
	return &peer.Answer{Error: openai.Internal(), Verdict: hop.Verdict{Kind: hop.VerdictError, Final: final}}
}

// clientGone returns the answer to a client that has left, which none reads. See internalError.
//
//go:noinline
func clientGone() *peer.Answer {
	return &peer.Answer{Error: openai.Unavailable(reasons.ClientGone, 0)}
}

// eachField calls set with the name and value of each header that every answer to another node has.
func eachField(a *peer.Answer, set func(name, value string)) {
	if a.HasLoad {
		set(hop.HeaderLoad, a.Load.String())
	}
	set(hop.HeaderQueuedMS, strconv.FormatInt(a.Queued.Milliseconds(), 10))
	set(hop.HeaderAttempts, strconv.Itoa(a.Attempts))
	if a.RetriesMade > 0 {
		set(hop.HeaderRetries, strconv.Itoa(a.RetriesMade))
	}
	if a.ServedBy != "" {
		set(hop.HeaderServedBy, a.ServedBy)
	}
	if a.EndpointReason != "" {
		set(hop.HeaderEndpointReason, a.EndpointReason)
	}
	if len(a.Visits) > 0 {
		set(hop.HeaderVisits, hop.FormatVisits(a.Visits))
	}
}

// refuseUnreadable answers a request that could not be read.
func (s *Server) refuseUnreadable(rc *fasthttp.RequestCtx, e *openai.Error) {
	server.WriteError(rc, e, "")
}
