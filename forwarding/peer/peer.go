package peer

import (
	"context"
	"slices"
	"strings"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// Func carries one request to one colo server. It returns when the first byte of the response, a whole short response or a verdict has
// arrived. Its error is the context's cause after the context has ended, and otherwise a [*transport.ExchangeError] or a
// [*NoVerdictError].
type Func func(ctx context.Context, r *Request) (*Answer, error)

// Request is a request to a colo server.
type Request struct {
	Token     hop.Token
	Route     openai.Route
	Fields    []transport.Field    // header lines for the engine, without the client's key
	Lookup    func(string) string  // returns a header line by name, instead of Fields; nil = use Fields
	Body      []byte               // empty for a WebSocket
	Described *openai.Body         // what Body is, for a server in this process; nil = the server reads Body
	Handshake *transport.Handshake // the client's, for a WebSocket; else nil
	// Progress, unless it is nil, is called with the progress of the waiting request, by the goroutine that has called the Func: by a
	// server in this process once a second, by one elsewhere when the progress changes.
	Progress func(hop.Progress)
	// Tick, unless it is nil, is called repeatedly while a network is waited for, until the first byte: see [transport.Request].
	Tick func() time.Duration
	// Abort, unless it is nil, ends the exchange with a server elsewhere before its first byte: see [transport.Request].
	Abort  *transport.Abort
	Limits Limits
	// TakeUsage makes the usage of an answer from elsewhere known to the caller, and takes the event with it out of a stream whose client
	// did not ask for it: see [transport.ReadOptions]. The token has KeepUsage then.
	TakeUsage  bool
	StripUsage bool
	// Parts is how many completions a streamed answer from elsewhere has: see [transport.ReadOptions].
	Parts openai.StreamParts
	// AnswerModel, unless it is empty, is written in place of the model's name in the answer, where it arrives: see [transport.ReadOptions]. A
	// server elsewhere does not learn it.
	AnswerModel string
}

// Margin returns by how much a limit of a node is longer than that of the server it asks, which may forward the request to some stops: the
// server nearest to the engine knows why nothing comes, and says so first.
func Margin(stops int) time.Duration { return time.Duration(1+stops) * time.Second }

// Limits are the limits of the exchange with a server elsewhere. The server has its own, by the token and the model.
type Limits struct {
	Connect   time.Duration // for making a connection
	FirstByte time.Duration // from dispatch to the first byte; 0 = only End holds
	Idle      time.Duration // longest time without a byte after the first
	End       time.Time     // of the exchange
}

// Field returns the value of the header line called name, or "".
func (r *Request) Field(name string) string {
	if r.Lookup != nil {
		return r.Lookup(name)
	}
	for _, f := range r.Fields {
		if len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// AppendForwarded appends the request headers that are forwarded down to the engine: a fixed list, those of the model's document, and
// no others. value returns a header's value, or "" if there is none.
func AppendForwarded(dst []transport.Field, ofModel []string, value func(name string) string) []transport.Field {
	add := func(name string) {
		if v := value(name); v != "" {
			dst = append(dst, transport.Field{Name: name, Value: v})
		}
	}
	for _, name := range hop.ForwardedHeaders() {
		add(name)
	}
	for _, name := range ofModel {
		if !hop.IsForwarded(name) {
			add(name)
		}
	}
	return dst
}

// AppendForNode appends the request headers that are for colo servers, and that no engine gets unless its model's document names them.
func AppendForNode(dst []transport.Field, value func(name string) string) []transport.Field {
	for _, name := range [...]string{hop.HeaderSessionAffinity, hop.HeaderEndpointReason, hop.HeaderInternal} {
		if v := value(name); v != "" && !slices.ContainsFunc(dst, func(f transport.Field) bool { return strings.EqualFold(f.Name, name) }) {
			dst = append(dst, transport.Field{Name: name, Value: v})
		}
	}
	return dst
}

// line returns the request's method, and its path with the query.
func (r *Request) line() (method, path string) {
	if r.Handshake == nil {
		return "POST", r.Route.Path
	}
	return "GET", realtimePath(r.Route.Path, r.Token.Model)
}

// appendHeader appends the value of the header line called name, for the signature.
func (r *Request) appendHeader(dst []byte, name string) []byte { return append(dst, r.Field(name)...) }

// setSignable sets a token to that of the request as it is signed for a server: with the names of the further header lines that it signs, and as the server's
// protocol has it.
func (r *Request) setSignable(token *hop.Token, to *Server) {
	*token = r.Token
	token.Visited = to.names(token.Visited)
	if to.Protocol < hop.NodeNamesProtocol {
		token.Onward = nil
	}
	var names []string
	for _, f := range r.Fields {
		if f.Value != "" && !hop.IsForwarded(f.Name) {
			names = append(names, f.Name)
		}
	}
	if names != nil {
		token.Headers = &hop.MoreHeaders{Names: names}
	}
}

const (
	// maxHead is the highest size of a request's head, in bytes, as servers have it.
	maxHead = 16 << 10
	// headOverhead is more than what a head has besides the path, the host, the token and the request's fields, in bytes.
	headOverhead = 256
)

// roomForToken returns how many bytes the head of a request has for its token. It is at least 1.
func (r *Request) roomForToken(to *Server) int {
	room := maxHead - headOverhead - len(r.Route.Path) - len(to.Address)
	for _, f := range r.Fields {
		room -= len(f.Name) + len(f.Value) + len(": \r\n")
	}
	return max(room, 1)
}

// Answer is the result of a request: a Response to relay, or a Verdict. It is for one goroutine. A Response must be relayed, with the
// hooks called as [relay.Relay] calls them, or Close must be called.
type Answer struct {
	Response *transport.Response // nil if the request was not served
	// EndUnknown means that neither the framing of the engine's response nor its content shows its end: see [relay.Relay].
	EndUnknown bool
	// Session runs an upgraded Response if the engine's connection ends in this process. Otherwise it is nil, and a tunnel carries the
	// connection to the colo server that runs the session.
	Session *realtime.Session

	Verdict hop.Verdict   // of a request that was not served
	Error   *openai.Error // for its client, if nothing else is tried

	Load     hop.Load      // of the pool, if HasLoad
	HasLoad  bool          //
	Queued   time.Duration // time spent in the colo's queue
	Attempts int           // at engines
	// RetriesMade are the attempts of the server that has given the Response after its first; the Verdict has those of any other request.
	RetriesMade int

	// ServedBy is the [hop.NodeName] of the server whose engine has given the Response; empty = not known, or not served.
	ServedBy string
	// EndpointReason is the endpoint of the Response and why it was chosen, if the request asked for it with [hop.HeaderEndpointReason].
	EndpointReason string
	// Visits are the servers that did not serve the request, if a colo server has sent it on: that server first, and then the others in the
	// order in which they were asked.
	Visits []hop.Visit

	Took    time.Duration // for which a server elsewhere has had the request until the head of its answer, if HasTook
	HasTook bool
	elapsed time.Duration // from sending the request, once the connection was made, until the head of the answer; 0 = not known

	// Hooks of a Response whose body is relayed; each may be nil. The relaying goroutine calls OnChunk after each piece; OnExchangeEnd at most once,
	// if the engine has said everything before the client has taken it; OnOutcome once, before the client can know the outcome; and OnClose once, last.
	// blocked is the time in which the client has blocked the relay. Backlogs must be set with OnExchangeEnd.
	OnChunk       func()
	OnExchangeEnd func(blocked time.Duration)
	Backlogs      *relay.Backlogs
	OnOutcome     func(end relay.Outcome, blocked time.Duration)
	OnClose       func()
}

// RelayBy makes r relay the Response, with OnChunk and OnExchangeEnd.
func (a *Answer) RelayBy(r *relay.Relay) {
	r.Response, r.OnChunk, r.Backlogs = a.Response, a.OnChunk, a.Backlogs
	if a.OnExchangeEnd != nil {
		r.OnExchangeEnd = func() { a.OnExchangeEnd(r.BlockedOnClient()) }
	}
}

// Visit returns the answer as the visit to the server that has given it.
func (a *Answer) Visit(colo, node string) hop.Visit {
	return hop.Visit{Colo: colo, Node: node, Verdict: a.Verdict, Load: a.Load, HasLoad: a.HasLoad, Queued: a.Queued, Attempts: a.Attempts}
}

// Close ends an answer that is not relayed. Further calls do nothing.
func (a *Answer) Close() {
	onOutcome, onClose := a.OnOutcome, a.OnClose
	a.OnOutcome, a.OnClose = nil, nil
	if onClose != nil {
		defer onClose() // after a panic, too
	}
	if a.Response != nil {
		a.Response.Close()
	}
	if onOutcome != nil {
		onOutcome(relay.Outcome{Kind: relay.OutcomeClientGone}, 0)
	}
}
