package openai

import "bytes"

// RequestHead is what a server read before a request's body, as it came.
type RequestHead struct {
	Method   []byte
	Target   []byte
	Protocol []byte
	Raw      []byte // the header lines with their CRLFs, with or without the blank line
	Host     []byte // what the server takes for the host, if it has a view of its own
	MaxBody  int    // the longest body that may be announced, in bytes; 0 = any
}

// maxHeaders bounds the header lines of a request.
const maxHeaders = 100

// guard is what has been seen of a head.
type guard struct {
	head    RequestHead
	seen    header
	old     bool // HTTP/1.0
	host    []byte
	hasBody bool
}

// CheckHead refuses a request head that two parsers could read in two ways, or
// that asks for what is never done here. It says nothing about what is asked
// for: see [ParseRoute].
func CheckHead(h RequestHead) *Error {
	g := guard{head: h}
	if err := g.firstLine(); err != nil {
		return err
	}
	lines := 0
	for rest := h.Raw; len(rest) > 0; lines++ {
		n := bytes.IndexByte(rest, '\n')
		if n < 1 || rest[n-1] != '\r' {
			return InvalidRequest("", "a header line does not end in CRLF")
		}
		line := rest[:n-1]
		rest = rest[n+1:]
		if len(line) == 0 {
			if len(rest) > 0 {
				return InvalidRequest("", "there is text after the end of the headers")
			}
			break
		}
		if lines == maxHeaders {
			return TooManyHeaders(maxHeaders)
		}
		if err := g.line(line); err != nil {
			return err
		}
	}
	return g.whole()
}

func (g *guard) firstLine() *Error {
	switch string(g.head.Protocol) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		g.old = true
	default:
		return InvalidRequest("", "the HTTP version is not supported: use HTTP/1.1")
	}
	switch string(g.head.Method) {
	case "CONNECT", "TRACE":
		return MethodNotAllowed(string(g.head.Method), "GET, POST")
	}
	if !isToken(g.head.Method) {
		return InvalidRequest("", "the method is malformed")
	}
	if !visible(g.head.Target) || bytes.IndexByte(g.head.Target, '#') >= 0 {
		return InvalidRequest("", "the request target is malformed: it must be visible ASCII without a fragment")
	}
	return nil
}

// line checks one header line without its CRLF.
func (g *guard) line(line []byte) *Error {
	if line[0] == ' ' || line[0] == '\t' {
		return InvalidRequest("", "a header is folded over several lines")
	}
	n := bytes.IndexByte(line, ':')
	if n < 1 {
		return InvalidRequest("", "a header line has no name or no colon")
	}
	var buf [maxHeaderName]byte
	name, aliased, ok := canonical(buf[:0], line[:n])
	if !ok {
		return InvalidRequest("", "a header name has a character that names do not have")
	}
	value := trim(line[n+1:])
	if hasControl(value) {
		return InvalidRequest("", "a header value has a control character")
	}
	is := headerOf(name)
	if is == 0 {
		return nil
	}
	if aliased {
		return InvalidRequest("", "the header %q must be written %q", cut(string(line[:n])), string(name))
	}
	if g.seen&is&^headersRepeated != 0 {
		return InvalidRequest("", "the header %q occurs twice", string(name))
	}
	g.seen |= is
	return g.header(is, value)
}

func (g *guard) header(is header, value []byte) *Error {
	switch is {
	case headerContentLength:
		return g.contentLength(value)
	case headerTransferEncoding:
		return g.transferEncoding(value)
	case headerHost:
		return g.hostHeader(value)
	case headerExpect:
		if !equalFold(value, "100-continue") {
			return InvalidRequest("", "the header \"expect\" is not supported but for 100-continue")
		}
	case headerTrailer:
		return InvalidRequest("", "trailers are not supported")
	case headerUpgrade:
		if equalFold(value, "h2c") {
			return nil // Java's client offers it with every request; an offer may be passed over (RFC 9110, 7.8)
		}
		if g.old || string(g.head.Method) != "GET" || !equalFold(value, "websocket") {
			return noUpgrade()
		}
	case headerConnection:
		return connection(value)
	}
	return nil
}

func noUpgrade() *Error {
	return InvalidRequest("", "the connection cannot be upgraded: use HTTP/1.1 without \"upgrade\" (and set the client not to try HTTP/2)")
}

func (g *guard) contentLength(value []byte) *Error {
	n, ok := count(value)
	if !ok {
		return InvalidRequest("", "the header \"content-length\" is not a plain number")
	}
	if g.head.MaxBody > 0 && n > g.head.MaxBody {
		return RequestTooLarge(int64(g.head.MaxBody))
	}
	g.hasBody = g.hasBody || n > 0
	return nil
}

func (g *guard) transferEncoding(value []byte) *Error {
	if g.old || string(value) != "chunked" {
		return InvalidRequest("", "the header \"transfer-encoding\" is not supported but for chunked, in HTTP/1.1")
	}
	g.hasBody = true
	return nil
}

func (g *guard) hostHeader(value []byte) *Error {
	g.host = value
	for _, c := range value {
		if !alphanumeric(c) && bytes.IndexByte([]byte("-._:[]"), c) < 0 {
			return InvalidRequest("", "the header \"host\" is malformed")
		}
	}
	if len(value) == 0 {
		return InvalidRequest("", "the header \"host\" is empty")
	}
	return nil
}

// connection refuses to have headers that matter declared to be of this hop
// only: somebody on the way might take them out.
func connection(value []byte) *Error {
	for len(value) > 0 {
		var option []byte
		option, value, _ = bytes.Cut(value, []byte(","))
		if option = trim(option); len(option) == 0 {
			continue
		}
		var buf [maxHeaderName]byte
		name, _, ok := canonical(buf[:0], option)
		if !ok || headerOf(name)&^headersOfHop != 0 {
			return InvalidRequest("", "the header \"connection\" lists what it must not")
		}
	}
	return nil
}

// whole checks what only all headers together tell.
func (g *guard) whole() *Error {
	if g.seen&headerContentLength != 0 && g.seen&headerTransferEncoding != 0 {
		return InvalidRequest("", "the request has both \"content-length\" and \"transfer-encoding\"")
	}
	if g.hasBody && (string(g.head.Method) == "GET" || string(g.head.Method) == "HEAD") {
		return InvalidRequest("", "a %s request must not have a body", string(g.head.Method))
	}
	if !g.old && g.seen&headerHost == 0 {
		return InvalidRequest("", "the header \"host\" is missing")
	}
	if len(g.head.Host) > 0 && g.host != nil && !equalFold(g.head.Host, g.host) {
		return InvalidRequest("", "the request names two hosts")
	}
	return g.target()
}

// target accepts a path, or an absolute URL whose host is that of the header.
func (g *guard) target() *Error {
	authority, path, absolute, ok := splitTarget(g.head.Target)
	if !ok || !wellEscaped(path) {
		return InvalidRequest("", "the request target is malformed: it must be a path, with %% only before two hexadecimal digits")
	}
	if absolute && !equalFold(authority, g.host) {
		return InvalidRequest("", "the request target names another host than the header \"host\"")
	}
	return nil
}

// splitTarget splits an absolute URL's authority from its path and query.
func splitTarget(target []byte) (authority, path []byte, absolute, ok bool) {
	if len(target) > 0 && target[0] == '/' {
		return nil, target, false, true
	}
	scheme, rest, found := bytes.Cut(target, []byte("://"))
	if !found || !equalFold(scheme, "http") && !equalFold(scheme, "https") {
		return nil, nil, false, false
	}
	n := bytes.IndexAny(rest, "/?")
	if n < 1 || rest[n] != '/' {
		return nil, nil, false, false
	}
	return rest[:n], rest[n:], true, true
}

// wellEscaped says whether each percent sign before the query escapes something.
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
		_, first := hexDigit(path[n+1])
		_, second := hexDigit(path[n+2])
		if !first || !second {
			return false
		}
		path = path[n+3:]
	}
}
