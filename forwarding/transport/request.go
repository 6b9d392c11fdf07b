package transport

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peertls"

	"golang.org/x/net/http/httpguts"
)

// Target is where a request goes.
type Target struct {
	Address    string              // host:port
	Host       string              // the Host header
	ServerName string              // of the certificate; empty = no TLS
	Prefix     string              // before every path; empty for most
	Peer       peertls.TrustedPeer // the node that must be met there, by mutual TLS; the zero value = whoever is there
}

// ParseTarget reads an endpoint's URL.
func ParseTarget(raw string) (Target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return Target{}, fmt.Errorf("cannot read URL: %w", err)
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

// Field is one header line to send.
type Field struct{ Name, Value string }

// Request is what one hop sends. It is built from what we know, never copied from what a client sent.
type Request struct {
	Target Target
	Method string
	Path   string // with its query
	Fields []Field
	Body   []byte
	// Handshake, if there is one, asks for a WebSocket. An answer may then have switched: see [Response.Upgraded].
	Handshake *Handshake
	// May, if there is one, is asked right before the first byte is sent, when the connection stands. If it says no, nothing
	// is sent, and the exchange ends with [ErrNotSent].
	Precondition func() bool

	ConnectTimeout   time.Duration // longest wait for a connection
	FirstByteTimeout time.Duration // from dispatch to the first byte of a stream; 0 = only End holds
	IdleTimeout      time.Duration // longest silence after the first byte
	Deadline         time.Time     // of the whole exchange
	// Progress, if there is one, is told what the interim answers of a node of ours say, whose hop token asked for them.
	OnProgress func(hop.Progress)
	// Pulse, if there is one, is called again and again until the first byte, and says after how long of silence it is to
	// be called at the latest.
	Tick func() time.Duration
	// Linger is how long to wait for the other side to close after a cancellation: for engines, whose slot is free only
	// then.
	Linger time.Duration
}

// appendHead appends the request line and the header lines. A field that could not stand there is an error, since it
// would smuggle another.
func (r *Request) appendHead(b []byte) ([]byte, error) {
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, r.Target.Prefix...)
	b = append(b, r.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.Target.Host...)
	b = append(b, "\r\n"...)
	for _, s := range [...]string{r.Method, r.Target.Host, r.Target.Prefix, r.Path} {
		if !httpguts.ValidHeaderFieldValue(s) || strings.ContainsAny(s, " \t") {
			return b, fmt.Errorf("cannot send a request with %.80q in its first lines", s)
		}
	}
	for _, f := range r.Fields {
		if f.Value == "" {
			continue
		}
		if !httpguts.ValidHeaderFieldName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
			return b, fmt.Errorf("cannot send header %.40q: it has a control character", f.Name)
		}
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
		b = append(b, "\r\n"...)
	}
	if r.Handshake != nil {
		b = r.Handshake.appendFields(b)
	}
	if r.Method != "GET" {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}
