package httpguard

import (
	"bytes"

	"colonnade/internal/ascii"
	"colonnade/openai"
)

// RequestHead is the head of a request as it was on the wire.
type RequestHead struct {
	Method   []byte
	Target   []byte
	Protocol []byte
	Raw      []byte // the header lines with their CRLFs, with or without the empty line
	Host     []byte // the host in the server's view, if it has one
	MaxBody  int    // the longest body that Content-Length may announce, in bytes; 0 = any
	Upgrade  string // a protocol beside WebSocket that a GET may ask for; empty = none
}

// maxHeaders is the highest number of header lines.
const maxHeaders = 100

// guard is the state of one CheckHead.
type guard struct {
	head    RequestHead
	seen    header
	http10  bool // HTTP/1.0
	host    []byte
	hasBody bool
}

// CheckHead returns an error for a head that two parsers could read differently, or that requests what no server here does. It does
// not check what the request is for: see [openai.ParseRoute].
func CheckHead(h RequestHead) *openai.Error {
	g := guard{head: h}
	if err := g.firstLine(); err != nil {
		return err
	}
	lines := 0
	for rest := h.Raw; len(rest) > 0; lines++ {
		n := bytes.IndexByte(rest, '\n')
		if n < 1 || rest[n-1] != '\r' {
			return openai.InvalidRequest("", "a header line does not end in CRLF")
		}
		line := rest[:n-1]
		rest = rest[n+1:]
		if len(line) == 0 {
			if len(rest) > 0 {
				return openai.InvalidRequest("", "there is text after the end of the headers")
			}
			break
		}
		if lines == maxHeaders {
			return openai.TooManyHeaders(maxHeaders)
		}
		if err := g.line(line); err != nil {
			return err
		}
	}
	return g.checkAll()
}

func (g *guard) firstLine() *openai.Error {
	switch string(g.head.Protocol) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		g.http10 = true
	default:
		return openai.InvalidRequest("", "the HTTP version is not supported: use HTTP/1.1")
	}
	switch string(g.head.Method) {
	case "CONNECT", "TRACE":
		return openai.MethodNotAllowed(string(g.head.Method), "GET, POST")
	}
	if !ascii.IsToken(g.head.Method) {
		return openai.InvalidRequest("", "the method is malformed")
	}
	if !ascii.IsVisible(g.head.Target) || bytes.IndexByte(g.head.Target, '#') >= 0 {
		return openai.InvalidRequest("", "the request target is malformed: it must be visible ASCII without a fragment")
	}
	return nil
}

// line checks a header line without its CRLF.
func (g *guard) line(line []byte) *openai.Error {
	if line[0] == ' ' || line[0] == '\t' {
		return openai.InvalidRequest("", "a header is folded over several lines")
	}
	n := bytes.IndexByte(line, ':')
	if n < 1 {
		return openai.InvalidRequest("", "a header line has no name or no colon")
	}
	var buf [maxHeaderName]byte
	name, aliased, ok := canonical(buf[:0], line[:n])
	if !ok {
		return openai.InvalidRequest("", "a header name has a character that names do not have")
	}
	value := ascii.TrimSpace(line[n+1:])
	if ascii.HasControl(value) {
		return openai.InvalidRequest("", "a header value has a control character")
	}
	is := headerOf(name)
	if is == 0 {
		return nil
	}
	if aliased {
		return openai.InvalidRequest("", "the header %q must be written %q", openai.Cut(string(line[:n])), string(name))
	}
	if g.seen&is&^headersRepeated != 0 {
		return openai.InvalidRequest("", "the header %q occurs twice", string(name))
	}
	g.seen |= is
	return g.header(is, value)
}

func (g *guard) header(is header, value []byte) *openai.Error {
	switch is {
	case headerContentLength:
		return g.contentLength(value)
	case headerTransferEncoding:
		return g.transferEncoding(value)
	case headerHost:
		return g.hostHeader(value)
	case headerExpect:
		if !ascii.EqualFold(value, "100-continue") {
			return openai.InvalidRequest("", "the header \"expect\" is not supported but for 100-continue")
		}
	case headerTrailer:
		return openai.InvalidRequest("", "trailers are not supported")
	case headerUpgrade:
		if ascii.EqualFold(value, "h2c") {
			return nil // Java's client offers it with every request, and a server may ignore it (RFC 9110, section 7.8)
		}
		known := ascii.EqualFold(value, "websocket") || g.head.Upgrade != "" && string(value) == g.head.Upgrade
		if g.http10 || string(g.head.Method) != "GET" || !known {
			return noUpgrade()
		}
	case headerConnection:
		return connection(value)
	}
	return nil
}

func noUpgrade() *openai.Error {
	return openai.InvalidRequest("", "the connection cannot be upgraded: use HTTP/1.1 without \"upgrade\" (and set the client not to try HTTP/2)")
}

func (g *guard) contentLength(value []byte) *openai.Error {
	n, ok := ascii.ParseUint(value)
	if !ok {
		return openai.InvalidRequest("", "the header \"content-length\" is not a plain number")
	}
	if g.head.MaxBody > 0 && n > g.head.MaxBody {
		return openai.RequestTooLarge(int64(g.head.MaxBody))
	}
	g.hasBody = g.hasBody || n > 0
	return nil
}

func (g *guard) transferEncoding(value []byte) *openai.Error {
	if g.http10 || string(value) != "chunked" {
		return openai.InvalidRequest("", "the header \"transfer-encoding\" is not supported but for chunked, in HTTP/1.1")
	}
	g.hasBody = true
	return nil
}

func (g *guard) hostHeader(value []byte) *openai.Error {
	g.host = value
	for _, c := range value {
		if !ascii.IsAlphanumeric(c) && bytes.IndexByte([]byte("-._:[]"), c) < 0 {
			return openai.InvalidRequest("", "the header \"host\" is malformed")
		}
	}
	if len(value) == 0 {
		return openai.InvalidRequest("", "the header \"host\" is empty")
	}
	return nil
}

// connection refuses a Connection header that lists a header of [headerOf]: a proxy on the path would remove that header.
func connection(value []byte) *openai.Error {
	for len(value) > 0 {
		var option []byte
		option, value, _ = bytes.Cut(value, []byte(","))
		if option = ascii.TrimSpace(option); len(option) == 0 {
			continue
		}
		var buf [maxHeaderName]byte
		name, _, ok := canonical(buf[:0], option)
		if !ok || headerOf(name)&^headersOfHop != 0 {
			return openai.InvalidRequest("", "the header \"connection\" lists a header that must not be removed")
		}
	}
	return nil
}

// checkAll checks the headers against each other.
func (g *guard) checkAll() *openai.Error {
	if g.seen&headerContentLength != 0 && g.seen&headerTransferEncoding != 0 {
		return openai.InvalidRequest("", "the request has both \"content-length\" and \"transfer-encoding\"")
	}
	if g.hasBody && (string(g.head.Method) == "GET" || string(g.head.Method) == "HEAD") {
		return openai.InvalidRequest("", "a %s request must not have a body", string(g.head.Method))
	}
	if !g.http10 && g.seen&headerHost == 0 {
		return openai.InvalidRequest("", "the header \"host\" is missing")
	}
	if len(g.head.Host) > 0 && g.host != nil && !ascii.EqualFold(g.head.Host, g.host) {
		return openai.InvalidRequest("", "the request names two hosts")
	}
	return g.target()
}

// target accepts a path, and an absolute URL with the host of the header.
func (g *guard) target() *openai.Error {
	authority, path, absolute, ok := openai.SplitTarget(g.head.Target)
	if !ok || !wellEscaped(path) {
		return openai.InvalidRequest("", "the request target is malformed: it must be a path, with %% only before two hexadecimal digits")
	}
	if absolute && !ascii.EqualFold(authority, g.host) {
		return openai.InvalidRequest("", "the request target names another host than the header \"host\"")
	}
	return nil
}

// wellEscaped reports whether two hexadecimal digits follow each percent sign before the query.
func wellEscaped(path []byte) bool {
	path, _, _ = bytes.Cut(path, []byte("?"))
	for {
		n := bytes.IndexByte(path, '%')
		if n < 0 {
			return true
		}
		if n+2 >= len(path) {
			return false
		}
		_, first := ascii.HexDigit(path[n+1])
		_, second := ascii.HexDigit(path[n+2])
		if !first || !second {
			return false
		}
		path = path[n+3:]
	}
}
