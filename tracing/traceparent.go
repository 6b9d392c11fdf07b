package tracing

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// SpanID is the id of one span; zero = none.
type SpanID = trace.SpanID

// newSpanID returns a random id.
func newSpanID() (id SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// position is what the header traceparent says: a span, and whether it is recorded.
type position struct {
	trace trace.TraceID
	span  SpanID
	flags trace.TraceFlags
}

const (
	positionSize = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	keptFlags    = trace.FlagsSampled | trace.FlagsRandom
)

// parsePosition parses the header traceparent, as version 0 of W3C Trace Context has it. Of a later version, it reads what version 0 has.
func parsePosition(s string) (p position, ok bool) {
	if len(s) < positionSize || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return p, false
	}
	var version, flags [1]byte
	for _, part := range [...]struct {
		to   []byte
		from string
	}{{version[:], s[:2]}, {p.trace[:], s[3:35]}, {p.span[:], s[36:52]}, {flags[:], s[53:55]}} {
		if !decodeHex(part.to, part.from) {
			return p, false
		}
	}
	rest := s[positionSize:]
	switch version[0] {
	case 0:
		ok = rest == "" && flags[0]&^byte(keptFlags) == 0
	case 0xff:
	default:
		ok = rest == "" || rest[0] == '-'
	}
	p.flags = trace.TraceFlags(flags[0]) & keptFlags
	return p, ok && p.trace.IsValid() && p.span.IsValid()
}

// isUnsampled reports whether a header, if it is valid and of version 0, says that the request is not recorded. It costs less than to parse
// the header, which most requests have.
func isUnsampled(s string) bool {
	return len(s) == positionSize && s[:3] == "00-" && s[positionSize-2:] == "00"
}

// decodeHex decodes lower-case digits only.
func decodeHex(dst []byte, s string) bool {
	if strings.ToLower(s) != s {
		return false
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

// String returns the header.
func (p position) String() string {
	b := make([]byte, 0, positionSize)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, p.trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, p.span[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, []byte{byte(p.flags)})
	return string(b)
}
