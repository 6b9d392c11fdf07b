package httpguard

import (
	"bytes"

	"colonnade/internal/ascii"
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
		if !ascii.IsTokenByte(c) {
			return nil, false, false
		}
		if c == '_' || c == '.' {
			c, aliased = '-', true
		}
		if len(dst) < cap(dst) {
			dst = append(dst, ascii.ToLower(c))
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
