package hop

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// Binding is the request that a token is signed for. A token is not valid for a request that differs in any of it.
//
// A token signs the server, the request line with its query, the body, Content-Type, Accept, User-Agent, and the header lines of the
// model's forward_headers, which it names ([MoreHeaders]). A server forwards no other header lines but traceparent and tracestate
// ([Token.Forwards]).
// The token also has the process of the server and a number, so that it is good once ([ReplayGuard]).
//
// It does not sign those two, since proxies between nodes that trace requests rewrite them; Host, the framing and the lines of the
// connection, since they end at the server and no engine gets them; the lines of a WebSocket handshake, since only its subprotocol is
// forwarded and the messages that follow are not signed either; nor the response. Only TLS between nodes protects these.
type Binding struct {
	Audience string // the server: its NodeName, or for a server before NodeNamesProtocol its node's name
	// OldAudience, for a verifier, is the node's name, which senders before NodeNamesProtocol sign, as JSON; empty = it is not accepted.
	OldAudience string
	Method      string
	Target      string // path and query
	// AppendHeader appends the value of the header line called name, which may be in any case; nil = there are no header lines.
	AppendHeader func(dst []byte, name string) []byte
	Body         []byte
	// Protocol, for a signer, is the newest protocol that the server speaks, by which the token has a version; 0 = not known.
	Protocol int
	// MaxToken, for a signer, is how many bytes there are for the token: stops of [Token.Onward] that do not fit are left out. 0 = 8 KiB, the most
	// that a token may have.
	MaxToken int
}

// ForwardedHeaders returns the names of the header lines that are forwarded to every engine.
func ForwardedHeaders() [5]string {
	return [...]string{"Content-Type", "Accept", "User-Agent", HeaderTraceParent, HeaderTraceState}
}

// signedHeaders returns the names of the header lines that every token signs, absent ones as empty.
func signedHeaders() [3]string { return [...]string{"Content-Type", "Accept", "User-Agent"} }

// IsForwarded reports whether the header line called name is one of [ForwardedHeaders].
func IsForwarded(name string) bool {
	for _, forwarded := range ForwardedHeaders() {
		if len(forwarded) == len(name) && strings.EqualFold(forwarded, name) {
			return true
		}
	}
	return false
}

// MoreHeaders names further header lines that are signed.
type MoreHeaders struct {
	Names []string `json:"n"`
	Sum   []byte   `json:"sum"` // SHA-256 of the names and values; set by [Keys.Sign]
}

// bodyDigest binds a token to a body. The token contains it, so that the token can be verified before the body has arrived.
type bodyDigest = [sha256.Size]byte

// appendMessage appends what is signed: the binding without its body, the body's digest, and the payload of the token. Each part but
// the last has a fixed or a stated length, so no two bindings give the same message.
func (b *Binding) appendMessage(dst []byte, version string, digest *bodyDigest, payload []byte) []byte {
	dst = b.appendBinding(dst, version)
	dst = append(dst, digest[:]...)
	return append(dst, payload...)
}

// appendBinding appends the beginning of what is signed: the version of the token, and the binding without its body.
func (b *Binding) appendBinding(dst []byte, version string) []byte {
	dst = append(dst, version...)
	for _, part := range [...]string{b.Audience, b.Method, b.Target} {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(part)))
		dst = append(dst, part...)
	}
	for _, name := range signedHeaders() {
		dst = b.appendHeader(dst, name)
	}
	return dst
}

// appendHeader appends the length and the value of a header line.
func (b *Binding) appendHeader(dst []byte, name string) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if b.AppendHeader != nil {
		dst = b.AppendHeader(dst, name)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// sumHeaders returns the digest of the header lines with these names.
func (b *Binding) sumHeaders(names []string) []byte {
	var message []byte
	for _, name := range names {
		message = binary.BigEndian.AppendUint32(message, uint32(len(name)))
		message = append(message, name...)
		message = b.appendHeader(message, name)
	}
	sum := sha256.Sum256(message)
	return sum[:]
}

// appendOldMessage is appendMessage of a token of [oldVersion], which signs neither the query nor any header line.
func (b *Binding) appendOldMessage(dst []byte, digest *bodyDigest, payload []byte) []byte {
	path, _, _ := strings.Cut(b.Target, "?")
	dst = fmt.Appendf(dst, "%s%d %d %d ", oldVersion, len(b.Audience), len(b.Method), len(path))
	dst = append(append(append(dst, b.Audience...), b.Method...), path...)
	dst = append(dst, digest[:]...)
	return append(dst, payload...)
}
