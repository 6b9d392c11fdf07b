package transport

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peertls"
	"colonnade/internal/ascii"
)

// Target is the server that a request goes to. Idle connections are kept by target.
type Target struct {
	Address    string              // host:port
	Host       string              // the Host header
	ServerName string              // in the certificate; empty = no TLS
	Prefix     string              // before every path
	Peer       peertls.TrustedPeer // the node that mutual TLS must find there; the zero value = any server
}

// ParseTarget returns the target of an endpoint's URL.
func ParseTarget(raw string) (Target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return Target{}, fmt.Errorf("cannot parse URL: %w", err)
	}
	t := Target{Host: u.Host, Prefix: strings.TrimSuffix(u.EscapedPath(), "/")}
	port := u.Port()
	switch u.Scheme {
	case "https":
		t.ServerName = u.Hostname()
		if port == "" {
			port = "443"
		}
	case "http":
		if port == "" {
			port = "80"
		}
	default:
		return Target{}, fmt.Errorf("URL %q: scheme must be http or https", raw)
	}
	if u.Hostname() == "" {
		return Target{}, fmt.Errorf("URL %q has no host", raw)
	}
	t.Address = joinHostPort(u.Hostname(), port)
	return t, nil
}

func joinHostPort(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// PeerTarget returns the target for the node who at address, a host:port. Without mutual TLS (nodes is nil), any server there is
// trusted.
func PeerTarget(nodes *peertls.TrustStore, address string, who peertls.Identity) Target {
	return Target{Address: address, Host: address, Peer: nodes.Peer(who)}
}

// Field is a header line.
type Field struct{ Name, Value string }

// Request is the request of one hop. Its fields are set one by one: it is never a copy of what a client has sent.
type Request struct {
	Target Target
	Method string
	Path   string // with its query
	Fields []Field
	// Sign, unless it is nil, appends the request's hop token. It is called for each send, since Do may send the request on a second connection and a server takes
	// a token once. It appends only what may stand in a header's value; if it fails, nothing is sent.
	Sign func(dst []byte) ([]byte, error)
	Body []byte
	// Account is for whom the request is. A connection that has served one account serves another only after a moment of silence.
	Account string
	// Handshake, unless it is nil, requests a WebSocket: see [Response.Upgraded].
	Handshake *Handshake
	// OpensLink asks the server to make the connection a link: see [Response.Upgraded].
	OpensLink bool
	// TextHead forbids a binary head, which requests over links have if the server reads such heads: see [hop.ParseRequestHead].
	TextHead bool
	// Link, unless it is nil, allows to send the request over a link, if its body has at most [MaxLinkBody] bytes. It returns the request that opens one.
	Link func() *Request
	// Precondition, unless it is nil, is called after the connection has been made and before the first byte is sent. If it returns
	// false, nothing is sent, and the exchange fails with [ErrNotSent].
	Precondition func() bool

	ConnectTimeout   time.Duration // for making a connection
	FirstByteTimeout time.Duration // from dispatch to the first byte; 0 = only Deadline holds
	IdleTimeout      time.Duration // longest time without a byte after the first
	Deadline         time.Time     // of the whole exchange
	// OnProgress, unless it is nil, is called with the progress in each interim response of a node whose hop token asked for it.
	OnProgress func(hop.Progress)
	// Tick, unless it is nil, is called repeatedly until the first byte, and returns the longest time until its next call.
	Tick func() time.Duration
	// Received, unless it is nil, is set whenever bytes of the server arrive, up to the end of the exchange.
	Received *atomic.Bool
	// Abort, unless it is nil, ends the exchange before its first byte, and Do returns its cause.
	Abort *Abort
	// Linger is how long to wait, after a cancellation, until the server has closed the connection: an engine's slot is free only
	// then.
	Linger time.Duration
}

// firstByteBy returns until when the first byte must arrive of a request that was dispatched when it began; zero means never.
func (r *Request) firstByteBy(began time.Time) time.Time {
	if r.FirstByteTimeout <= 0 {
		return r.Deadline
	}
	by := began.Add(r.FirstByteTimeout)
	if !r.Deadline.IsZero() && r.Deadline.Before(by) {
		return r.Deadline
	}
	return by
}

// upgrades reports whether the request is for another protocol on its connection.
func (r *Request) upgrades() bool { return r.Handshake != nil || r.OpensLink }

// within returns the time d after now, but not later than firstByteBy.
func (r *Request) within(now time.Time, d time.Duration, began time.Time) time.Time {
	limit := now.Add(d)
	if by := r.firstByteBy(began); !by.IsZero() && by.Before(limit) {
		return by
	}
	return limit
}

// appendHead appends the request line and the header lines. It returns an error for a value that could add another line, and that of
// Sign.
func (r *Request) appendHead(b []byte) (_ []byte, err error) {
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, r.Target.Prefix...)
	b = append(b, r.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.Target.Host...)
	b = append(b, "\r\n"...)
	if err := checkWords(r.Method, r.Target.Host, r.Target.Prefix, r.Path); err != nil {
		return b, err
	}
	if r.Sign != nil {
		if b, err = r.Sign(append(b, hop.HeaderToken+": "...)); err != nil {
			return b, err
		}
		b = append(b, "\r\n"...)
	}
	for _, f := range r.Fields {
		if b, err = f.append(b); err != nil {
			return b, err
		}
	}
	if r.Handshake != nil {
		b = r.Handshake.appendFields(b)
	}
	if r.OpensLink {
		b = append(b, "Upgrade: "+hop.UpgradeLink+"\r\nConnection: Upgrade\r\n"...)
	}
	if r.Method != "GET" {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// hasSpaceOrControl reports whether a part of a request line or a host has a byte by which it could end.
func hasSpaceOrControl(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// appendBinaryHead is appendHead for a request with a binary head, to a node.
func (r *Request) appendBinaryHead(b []byte) (_ []byte, err error) {
	if err := checkWords(r.Method, r.Path); err != nil {
		return b, err
	}
	b = hop.BeginRequestHead(b, r.Method, r.Path, len(r.Body))
	if r.Sign != nil {
		if b, err = hop.AppendHeadFieldBy(b, hop.HeaderToken, r.Sign); err != nil {
			return b, err
		}
	}
	for _, f := range r.Fields {
		b = hop.AppendHeadField(b, f.Name, f.Value)
		if err := f.check(b); err != nil {
			return b, err
		}
	}
	return b, hop.EndRequestHead(b)
}

// append appends the header line, unless its value is empty.
func (f *Field) append(b []byte) ([]byte, error) {
	if f.Value == "" {
		return b, nil
	}
	b = append(b, f.Name...)
	b = append(b, ": "...)
	b = append(b, f.Value...)
	if err := f.check(b); err != nil {
		return b, err
	}
	return append(b, "\r\n"...), nil
}

// check returns an error for a header line with a control character, whose value is the end of b.
func (f *Field) check(b []byte) error {
	if f.Value != "" && (!httpguts.ValidHeaderFieldName(f.Name) || ascii.HasControl(b[len(b)-len(f.Value):])) {
		return fmt.Errorf("cannot send header %.40q: it contains a control character", f.Name)
	}
	return nil
}

// checkWords returns an error for a word that would be more than one in a request line.
func checkWords(words ...string) error {
	for _, s := range words {
		if hasSpaceOrControl(s) {
			return fmt.Errorf("cannot send a request with %.80q in its head", s)
		}
	}
	return nil
}
