package httpguard

import (
	"bytes"

	"colonnade/internal/ascii"
)

// header is a set of headers that the guard knows, one bit each.
type header uint64

const (
	headerContentLength header = 1 << iota
	headerTransferEncoding
	headerHost
	headerContentType
	headerContentEncoding
	headerAuthorization
	headerAPIKey  // of Azure OpenAI's clients
	headerXAPIKey // of Anthropic's clients
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
	headerOrigin
	headerFetchSite
	headerWebSocketKey
	headerWebSocketVersion
	headerHop
	headerQueue
	headerPriority
	headerDeadline
	headerQueueEvents
	headerForceColo
	headerFallback
	headerModel
	headerOurs // any other x-colonnade-* header: it is not trusted, so it may repeat
)

const (
	// headersRepeated may occur several times.
	headersRepeated = headerConnection | headerKeepAlive | headerTE | headerProxy | headerOurs
	// headersOfHop may be listed in Connection.
	headersOfHop = headerConnection | headerKeepAlive | headerTE | headerUpgrade | headerHTTP2Settings
)

// maxHeaderName is longer than any name that headerOf knows.
const maxHeaderName = 64

const ourPrefix = "x-colonnade-"

// canonical appends name in lower case to dst, with hyphens for the characters that some servers replace by hyphens (CGI and its
// successors); aliased reports whether there were any. A name that is longer than the capacity of dst is checked whole and
// returned truncated. ok is false if name is not a token.
func canonical(dst, name []byte) (out []byte, aliased, ok bool) {
	dst = dst[:min(len(name), cap(dst))]
	for i, c := range name {
		is := canonicalBytes[c]
		if is == 0 {
			return nil, false, false
		}
		if is == '-' && c != '-' {
			aliased = true
		}
		if i < len(dst) {
			dst[i] = is
		}
	}
	return dst, aliased, len(name) > 0
}

// canonicalBytes has each byte of a token as it is in a canonical name, and 0 for all others.
var canonicalBytes = func() (all [256]byte) {
	for c := range len(all) {
		if ascii.IsTokenByte(byte(c)) {
			all[c] = ascii.ToLower(byte(c))
		}
	}
	all['_'], all['.'] = '-', '-'
	return all
}()

// headerOf returns the header with a canonical name, or 0 for one that the guard does not know.
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
	if h := keyHeaderOf(name); h != 0 {
		return h
	}
	return browserHeaderOf(name)
}

// keyHeaderOf returns the header that may have an API key.
func keyHeaderOf(name []byte) header {
	switch string(name) {
	case "authorization":
		return headerAuthorization
	case "api-key":
		return headerAPIKey
	case "x-api-key":
		return headerXAPIKey
	}
	return 0
}

func browserHeaderOf(name []byte) header {
	switch string(name) {
	case "origin":
		return headerOrigin
	case "sec-fetch-site":
		return headerFetchSite
	case "sec-websocket-key":
		return headerWebSocketKey
	case "sec-websocket-version":
		return headerWebSocketVersion
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
	case "fallback":
		return headerFallback
	case "model":
		return headerModel
	}
	return headerOurs
}
