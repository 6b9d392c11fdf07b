package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// Client carries requests and questions to colo servers elsewhere. All of its exported fields but Colo, Peers and Via are required. Its
// methods may be called by several goroutines at once.
type Client struct {
	Colo      string // of this node, if it is a colo server; else empty
	Node      string // this node, for Ask and Alive
	Transport *transport.Transport
	Keys      *hop.Keys
	Peers     *peertls.TrustStore // nil = without TLS
	// Via returns the address to connect to instead of that of a server, such as the address of a proxy in front of it. The
	// request and the certificate that the server must show stay the same. Nil = connect to the server's own address.
	Via func(Server) (address string)
	// Multiplex sends requests over links to servers that have them: see package link.
	Multiplex bool

	askWithin time.Duration // of tests; 0 = askTimeout
	sequences sequences
}

// Server is a colo server elsewhere.
type Server struct {
	Colo, Node string
	Address    string // host:port
	Boot       string // the process, as registered; it may have been replaced since
	Protocol   int    // the newest that it speaks; 0 = not known, which counts as one before [hop.NodeNamesProtocol]
}

// Audience returns the name of the server in a token, in the form that it understands.
func (s *Server) Audience() string {
	if s.Protocol < hop.NodeNamesProtocol {
		return s.Node
	}
	return hop.NodeName(s.Colo, s.Node)
}

// names returns names of servers in the form that the server understands.
func (s *Server) names(of []string) []string {
	if s.Protocol >= hop.NodeNamesProtocol || len(of) == 0 {
		return of
	}
	nodes := make([]string, len(of))
	for i, name := range of {
		_, nodes[i] = hop.SplitNodeName(name)
	}
	return nodes
}

// ErrNotSigned is wrapped by the error of a request that could not be signed, and was not sent.
var ErrNotSigned = errors.New("the request could not be signed")

// To returns the path to a server.
func (c *Client) To(s Server) Func {
	s.Boot = usableBoot(s.Boot)
	return func(ctx context.Context, r *Request) (*Answer, error) { return c.do(ctx, &s, r) }
}

// do sends the request. If the server refuses its token for one that may have been used before, usually since the server has been
// restarted, it has done nothing: the request is signed and sent again, once.
func (c *Client) do(ctx context.Context, to *Server, r *Request) (*Answer, error) {
	began := time.Now()
	sequence := c.sequences.to(to)
	answer, err := c.send(ctx, to, r, sequence)
	next := c.signAgain(to, sequence, err)
	if next == nil {
		return answer, err
	}
	again, spent := *r, time.Since(began)
	again.Token.Spend(spent)
	if again.Limits.FirstByte > 0 {
		again.Limits.FirstByte = max(again.Limits.FirstByte-spent, time.Millisecond)
	}
	return c.send(ctx, to, &again, next)
}

// signAgain returns the sequence by which to sign a request again that failed with err, or nil if it must not be signed again.
func (c *Client) signAgain(to *Server, used *hop.Sequence, err error) *hop.Sequence {
	var refused *NoVerdictError
	if !errors.As(err, &refused) {
		return nil
	}
	if refused.Replayed {
		c.sequences.drop(to, used)
	}
	if refused.boot == "" {
		return nil
	}
	return c.sequences.renew(to, used, refused.boot)
}

// send sends the request once.
func (c *Client) send(ctx context.Context, to *Server, r *Request, sequence *hop.Sequence) (*Answer, error) {
	response, err := c.Transport.Do(ctx, c.outgoing(to, r, sequence), transport.ReadOptions{
		API: r.Route.API, Dialect: r.Route.Dialect, RequireFraming: true, TrackUsage: r.TakeUsage, StripUsage: r.StripUsage,
		AnswerModel: r.AnswerModel, Parts: r.Parts,
	})
	if errors.Is(err, ErrNotSigned) {
		return nil, &transport.ExchangeError{Phase: transport.PhaseConnect, Err: err}
	}
	if err != nil {
		return nil, err
	}
	return c.read(response)
}

// outgoing returns the request as the transport sends it. It is signed each time that the transport begins to send it.
func (c *Client) outgoing(to *Server, r *Request, sequence *hop.Sequence) *transport.Request {
	method, path := r.line()
	room := 0
	if len(r.Token.Onward) > 0 && to.Protocol >= hop.NodeNamesProtocol {
		room = r.roomForToken(to)
	}
	request := &transport.Request{
		Target: c.target(to),
		Method: method, Path: path,
		Sign: func(dst []byte) ([]byte, error) {
			var token hop.Token
			r.setSignable(&token, to)
			return c.appendSigned(dst, &token, sequence, &hop.Binding{
				Audience: to.Audience(), Method: method, Target: path, AppendHeader: r.appendHeader, Body: r.Body,
				Protocol: to.Protocol, MaxToken: room,
			})
		},
		Fields:         r.Fields,
		Body:           r.Body,
		ConnectTimeout: r.Limits.Connect, FirstByteTimeout: r.Limits.FirstByte, IdleTimeout: r.Limits.Idle, Deadline: r.Limits.End,
		OnProgress: r.Progress, Tick: r.Tick, Abort: r.Abort,
	}
	if c.Multiplex && to.Protocol >= hop.LinkProtocol && !isLong(r.Route.API) {
		request.Link = func() *transport.Request { return c.openLink(*to, sequence) }
		request.TextHead = r.Token.WantsProgress // which comes in interim responses
	}
	if r.Handshake != nil {
		request.Handshake = transport.NewHandshake(r.Handshake.Protocols) // with a key of its own
	}
	return request
}

// appendSigned appends a token, which it changes, as signed now.
func (c *Client) appendSigned(dst []byte, token *hop.Token, sequence *hop.Sequence, b *hop.Binding) ([]byte, error) {
	dst, err := c.Keys.AppendSigned(dst, token, sequence, b, time.Now())
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrNotSigned, err)
	}
	return dst, err
}

// isLong reports whether answers are megabytes. Over a link, they would be no cheaper, and the window of a stream would delay them where servers are far apart.
func isLong(api openai.API) bool { return api == openai.Images || api == openai.Speech }

// target returns a server as the transport connects to it.
func (c *Client) target(to *Server) transport.Target {
	target := transport.PeerTarget(c.Peers, to.Address, peertls.Identity{Role: peertls.RoleColo, Colo: to.Colo, Node: to.Node})
	if c.Via != nil {
		target.Address = c.Via(*to)
	}
	return target
}

// read returns the answer in a response: the response itself, or the verdict in it.
func (c *Client) read(response *transport.Response) (*Answer, error) {
	a := &Answer{elapsed: response.Turnaround()}
	a.Took, a.HasTook = hop.ParseTook(response.Header(hop.HeaderTook))
	var err error
	if a.Visits, err = hop.ParseVisits(response.Header(hop.HeaderVisits)); err != nil {
		response.Close() // an answer that hides which servers have the request cannot be used
		return nil, &NoVerdictError{Status: response.Status(), Err: err}
	}
	if server := response.Header(hop.HeaderServedBy); hop.IsNodeName(server) {
		a.ServedBy = server
	}
	a.EndpointReason = response.Header(hop.HeaderEndpointReason)
	if load, err := hop.ParseLoad(response.Header(hop.HeaderLoad)); err == nil {
		a.Load, a.HasLoad = load, true
	}
	attempts := response.Header(hop.HeaderAttempts)
	a.Attempts, _ = strconv.Atoi(attempts)
	queued, _ := strconv.Atoi(response.Header(hop.HeaderQueuedMS))
	a.Queued = time.Duration(queued) * time.Millisecond
	value := response.Header(hop.HeaderVerdict)
	if value == "" && attempts != "" && !response.NotAPI() {
		a.Response, a.EndUnknown = response, response.Header(hop.HeaderEnd) == hop.EndUnknown
		if made := response.Header(hop.HeaderRetries); made != "" { // an empty number costs an error
			retries, _ := strconv.ParseUint(made, 10, 8)
			a.RetriesMade = int(retries)
		}
		return a, nil
	}
	defer response.Close()
	verdict, err := hop.ParseVerdict(value)
	if err != nil {
		return nil, c.noVerdict(response, err)
	}
	a.Verdict, a.Error = verdict, ErrorOf(verdict)
	return a, nil
}

// NoVerdictError is the error of a response that is not an engine's and has no verdict: the server has rejected the hop token, or
// could not read the request.
type NoVerdictError struct {
	Status  int
	NotRead bool // the server cannot have read the request, or has refused it unread
	// Replayed reports that another sender has used the request's hop token before.
	Replayed bool
	Rejected bool // the server does not take this node for one of the fleet
	Err      error

	boot string // of a server that wants the request signed again for this process of it; else empty
}

func (e *NoVerdictError) Error() string {
	return fmt.Sprintf("answered %d without a valid verdict: %v", e.Status, e.Err)
}

// Unwrap returns the cause.
func (e *NoVerdictError) Unwrap() error { return e.Err }

var (
	errRejected    = errors.New("it rejects this node: their key files, certificates or versions differ, or their clocks are more than ten minutes apart")
	errReplayed    = errors.New("the hop token of this request was used before: the network between the nodes has a sender that repeats requests; use TLS between nodes")
	errSignedAgain = errors.New("it refuses the hop token as one for another of its processes, also after it was signed again")
	errMayUseTLS   = errors.New("it may use TLS: then start this node with -peer-tls-cert, -peer-tls-key and -peer-tls-ca")
)

func (c *Client) noVerdict(response *transport.Response, err error) *NoVerdictError {
	status := response.Status()
	switch {
	case status == http.StatusForbidden && response.Header(hop.HeaderReason) == reasons.HopTokenReplayed:
		return &NoVerdictError{Status: status, Replayed: true, Err: errReplayed}
	case status == http.StatusForbidden && usableBoot(response.Header(hop.HeaderBoot)) != "":
		return &NoVerdictError{Status: status, NotRead: true, Err: errSignedAgain, boot: response.Header(hop.HeaderBoot)}
	case status == http.StatusForbidden:
		return &NoVerdictError{Status: status, Rejected: true, Err: errRejected}
	case status == http.StatusBadRequest && c.Peers == nil:
		return &NoVerdictError{Status: status, NotRead: true, Err: errMayUseTLS}
	}
	return &NoVerdictError{Status: status, Err: err}
}

// ErrorOf returns the error that a client gets for a verdict.
func ErrorOf(v hop.Verdict) *openai.Error {
	switch v.Number {
	case openai.NumberOutOfCapacity:
		return openai.OutOfCapacity(v.Reason, v.RetryAfter)
	case openai.NumberInferenceTimeout:
		return openai.InferenceTimeout(v.Reason)
	case openai.NumberUnavailable:
		return openai.Unavailable(v.Reason, max(v.RetryAfter, time.Second))
	case openai.NumberInternal:
		return openai.Internal()
	case openai.NumberRequestTimeout, openai.NumberRequestTooLarge: // the request did not reach the colo, or its table is older
		return openai.Unavailable(v.Reason, time.Second)
	}
	if v.EngineStatus != 0 {
		return openai.EngineMisconfigured(v.Reason, v.EngineStatus)
	}
	return openai.EngineFailed(v.Reason)
}

func realtimePath(path, model string) string { return path + "?model=" + url.QueryEscape(model) }
