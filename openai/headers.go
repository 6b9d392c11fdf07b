package openai

import (
	"bytes"
	"encoding/binary"
)

// header is a header that matters to the guard; one bit each.
type header uint64

const (
	headerContentLength header = 1 << iota
	headerTransferEncoding
	headerHost
	headerContentType
	headerContentEncoding
	headerAuthorization
	headerExpect
	headerUpgrade
	headerTrailer
	headerConnection
	headerHTTP2Settings
	headerKeepAlive
	headerTE
	headerProxy // proxy-authorization, proxy-connection
	headerRequestID
	headerAffinity
	headerSDKTimeout
	headerSDKReadTimeout
	headerTrace
	headerHop
	headerQueue
	headerPriority
	headerDeadline
	headerQueueEvents
	headerForceColo
	headerOurs // any other of ours: none is believed, so it may repeat
)

const (
	// headersRepeated may occur more than once.
	headersRepeated = headerConnection | headerKeepAlive | headerTE | headerProxy | headerOurs
	// headersOfHop may be listed in Connection.
	headersOfHop = headerConnection | headerKeepAlive | headerTE | headerUpgrade | headerHTTP2Settings
)

// maxHeaderName is longer than any name that headerOf knows.
const maxHeaderName = 64

const ourPrefix = "x-colonnade-"

// canonical lowers name and turns into hyphens the characters that some servers
// take for them (CGI and what came of it); aliased says that there were any. A
// name beyond maxHeaderName is checked, too, but comes back cut.
func canonical(dst, name []byte) (out []byte, aliased, ok bool) {
	if len(name) == 0 {
		return nil, false, false
	}
	for _, c := range name {
		if !tokenByte(c) {
			return nil, false, false
		}
		if c == '_' || c == '.' {
			c, aliased = '-', true
		}
		if len(dst) < cap(dst) {
			dst = append(dst, lower(c))
		}
	}
	return dst, aliased, true
}

// headerOf knows a canonical name, or returns 0.
func headerOf(name []byte) header {
	switch string(name) {
	case "content-length":
		return headerContentLength
	case "transfer-encoding":
		return headerTransferEncoding
	case "host":
		return headerHost
	case "content-type":
		return headerContentType
	case "content-encoding":
		return headerContentEncoding
	case "authorization":
		return headerAuthorization
	case "expect":
		return headerExpect
	case "upgrade":
		return headerUpgrade
	case "trailer":
		return headerTrailer
	case "connection":
		return headerConnection
	case "http2-settings":
		return headerHTTP2Settings
	case "keep-alive":
		return headerKeepAlive
	case "te":
		return headerTE
	case "proxy-authorization", "proxy-connection":
		return headerProxy
	case "x-request-id":
		return headerRequestID
	case "x-session-affinity":
		return headerAffinity
	case "x-stainless-timeout":
		return headerSDKTimeout
	case "x-stainless-read-timeout":
		return headerSDKReadTimeout
	case "traceparent":
		return headerTrace
	}
	if bytes.HasPrefix(name, []byte(ourPrefix)) {
		return ourHeaderOf(name[len(ourPrefix):])
	}
	return 0
}

func ourHeaderOf(name []byte) header {
	switch string(name) {
	case "hop":
		return headerHop
	case "queue":
		return headerQueue
	case "priority":
		return headerPriority
	case "deadline-ms":
		return headerDeadline
	case "queue-events":
		return headerQueueEvents
	case "force-colo":
		return headerForceColo
	}
	return headerOurs
}

// tokenByte says whether RFC 9110, section 5.6.2, has c in a token.
func tokenByte(c byte) bool {
	const (
		first = uint64(1)<<'!' | 1<<'#' | 1<<'$' | 1<<'%' | 1<<'&' | 1<<'\'' | 1<<'*' | 1<<'+' | 1<<'-' | 1<<'.' |
			(1<<10-1)<<'0'
		second = uint64(1)<<('^'-64) | 1<<('_'-64) | 1<<('`'-64) | 1<<('|'-64) | 1<<('~'-64) |
			(1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64)
	)
	if c < 64 {
		return first>>c&1 != 0
	}
	return c < 128 && second>>(c-64)&1 != 0
}

func alphanumeric(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 25
}

func isToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !tokenByte(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// trim takes the white space off that may stand around a header's value.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// visible says whether all bytes are visible ASCII, and there are any.
func visible(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return len(b) > 0
}

// hasControl says whether b has control characters other than tabs.
func hasControl(b []byte) bool {
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		del := w ^ low*0x7f
		if ((w-low*' ')&^w|(del-low)&^del)&high != 0 && slowHasControl(b[:8]) {
			return true
		}
		b = b[8:]
	}
	return slowHasControl(b)
}

func slowHasControl(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}
