package peer

import (
	"context"
	"strings"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// Func carries one request to one colo server. It returns when the answer's first byte, a whole short answer or a verdict is
// there. The error is the context's cause after the context has ended, else a [*transport.ExchangeError] or [*NoVerdictError] of a
// server that was not heard.
type Func func(ctx context.Context, r *Request) (*Answer, error)

// Request is what a node asks of a colo server.
type Request struct {
	Token     hop.Token
	Route     openai.Route
	Fields    []transport.Field    // header lines that an engine may get; the client's key is not among them
	Lookup    func(string) string  // finds a header line by name in place of Fields; nil = Fields has them
	Body      []byte               // empty for a WebSocket
	Handshake *transport.Handshake // the client's; nil unless it asks for a WebSocket
	// Progress, if it is not nil, is called with how the request waits, by the goroutine that called the Func.
	Progress func(hop.Progress)
	// Tick, if it is not nil, is called in silences until the first byte; see [transport.Request].
	Tick   func() time.Duration
	Limits Limits
}

// Limits bound the exchange with a server elsewhere. The server has limits of its own, by the token and the model.
type Limits struct {
	Connect   time.Duration // longest wait for a connection
	FirstByte time.Duration // from dispatch to the first byte; 0 = only End holds
	Idle      time.Duration // longest silence after the first byte
	End       time.Time     // of the whole exchange
}

// Field returns the value of the header line name, or nothing.
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

// line returns the request's method, and its path with the query.
func (r *Request) line() (method, path string) {
	if r.Handshake == nil {
		return "POST", r.Route.Path
	}
	return "GET", realtimePath(r.Route.Path, r.Token.Model)
}

// Answer is what comes of a request: a Response to relay, or a Verdict. It is for one goroutine. A Response must be relayed, with
// the hooks called as [relay.Relay] calls them, or else Close must be called.
type Answer struct {
	Response *transport.Response // nil if the request was not served
	// Session runs a Response that has switched to WebSocket, if the engine's connection ends in this process; otherwise it is nil,
	// and the connection to the colo server that runs it is tunnelled.
	Session *realtime.Session

	Verdict hop.Verdict   // of a request that was not served
	Error   *openai.Error // for its client, if nothing else is tried

	Load     hop.Load      // of the pool, if HasLoad
	HasLoad  bool          //
	Queued   time.Duration // time spent in the colo's queue
	Attempts int           // at engines

	// Hooks of a Response that comes as it is relayed; each may be nil. They are called by the relaying goroutine: OnChunk after
	// each piece; OnOutcome once, before the client can know how the answer ends, with how long the client has held it up; OnClose
	// once, last.
	OnChunk   func()
	OnOutcome func(end relay.Outcome, blocked time.Duration)
	OnClose   func()
}

// Close ends an answer that is not relayed.
func (a *Answer) Close() {
	if a.Response != nil {
		a.Response.Close()
	}
	if a.OnOutcome != nil {
		a.OnOutcome(relay.Outcome{Kind: relay.OutcomeClientGone}, 0)
	}
	if a.OnClose != nil {
		a.OnClose()
	}
	a.OnOutcome, a.OnClose = nil, nil
}
