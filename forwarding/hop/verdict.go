package hop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// VerdictKind is the result of a request that a colo server did not serve.
type VerdictKind string

// The kinds of verdict.
const (
	VerdictOOC   VerdictKind = "ooc"   // out of capacity; the entry goes on to the next colo, without a retry
	VerdictMoved VerdictKind = "moved" // the server drains or is not the home; the entry goes on to the home or the next colo, without a retry
	VerdictError VerdictKind = "error" // the engine or the server failed before the first byte

	// Of a Visit only: what the server that sent the request on learned without an answer.
	VerdictLost   VerdictKind = "lost"   // the request was sent, and no answer came
	VerdictUnread VerdictKind = "unread" // the server has not read the request: it could not be connected, or refused the request unread
)

// ofAnswer reports whether a server can give the verdict itself.
func (k VerdictKind) ofAnswer() bool {
	return k == VerdictOOC || k == VerdictMoved || k == VerdictError
}

// ofVisit reports whether a visit can have the verdict.
func (k VerdictKind) ofVisit() bool { return k.ofAnswer() || k == VerdictLost || k == VerdictUnread }

// Verdict is what a colo server answers about a request that it did not serve, in the header x-colonnade-verdict as
// `kind;name=value;…`. A response without a verdict is taken for an engine's only if it has the header x-colonnade-attempts, and is
// neither HTML nor in a content coding.
type Verdict struct {
	Kind            VerdictKind
	Reason          string
	Number          int           // of the client's error
	RetryAfter      time.Duration // of VerdictOOC; 0 = none
	RetryInterval   time.Duration // of VerdictOOC: by how much RetryAfter grows with each further refusal of the account, in microseconds on the wire; 0 = not known
	Expected        time.Duration // wait that was expected; 0 = not known
	RetriesMade     int           // attempts of this server after its first
	EngineStatus    int           // of an engine that refused this server, and not the request; 0 = none did
	EndpointsFailed int           // endpoints that have failed with this request, on other servers too
	MayWait         bool          // of VerdictOOC: the queue has room for a request that accepts the expected wait
	Unsent          bool          // no endpoint has begun with the request, though there were attempts: nothing was sent, or the engine has no such model or path
	Final           bool          // no other attempt may follow, since it could generate twice

	// Kinds of the engines of the model in this colo, as a set of bits, if none of them has the path; 0 = not known.
	Engines uint32

	// The request had a place in the queue. With VerdictMoved, it keeps the place at its home: see Token.Rejoin.
	Waited bool

	// Of VerdictMoved.
	To       string // node that is the home of the pool; empty = no server of this colo is known to be
	Address  string // `at`: host:port of To, as registered; empty = not known
	Boot     string // boot id of the process at Address; empty = not known
	Protocol int    // the newest that To speaks; 0 = not known
	Revision int64  // of the table that says so
	Drains   bool   // the server itself drains, which others may not know
}

// String returns the header's value. It leaves out an address or a boot id that ParseVerdict would not accept.
func (v Verdict) String() string {
	b := make([]byte, 0, 96)
	b = append(b, v.Kind...)
	if v.Reason != "" {
		b = append(b, ";reason="...)
		b = append(b, v.Reason...)
	}
	if v.To != "" {
		b = append(b, ";to="...)
		b = append(b, v.To...)
	}
	if isAddress(v.Address) {
		b = append(b, ";at="...)
		b = append(b, v.Address...)
	}
	if isBoot(v.Boot) {
		b = append(b, ";boot="...)
		b = append(b, v.Boot...)
	}
	for _, f := range v.numbers() {
		if f.value != 0 {
			b = fmt.Appendf(b, ";%s=%d", f.name, f.value)
		}
	}
	return string(b)
}

type numberField struct {
	name  string
	value int64
}

func (v Verdict) numbers() []numberField {
	return []numberField{
		{"number", int64(v.Number)},
		{"retry_after_ms", v.RetryAfter.Milliseconds()},
		{"retry_interval_us", min(v.RetryInterval, maxRetryInterval).Microseconds()},
		{"engine", int64(v.EngineStatus)},
		{"expected_ms", v.Expected.Milliseconds()},
		{"retries", int64(v.RetriesMade)},
		{"broken", int64(v.EndpointsFailed)},
		{"may_wait", boolInt(v.MayWait)},
		{"unsent", boolInt(v.Unsent)},
		{"final", boolInt(v.Final)},
		{"protocol", int64(v.Protocol)},
		{"revision", v.Revision},
		{"waited", boolInt(v.Waited)},
		{"drains", boolInt(v.Drains)},
		{"engines", int64(v.Engines)},
	}
}

// ParseVerdict parses the header's value. It ignores unknown names, so that nodes of different versions work together.
func ParseVerdict(s string) (Verdict, error) { return parseVerdict(s, VerdictKind.ofAnswer) }

// parseVerdict is ParseVerdict for a verdict of the accepted kinds.
func parseVerdict(s string, accepted func(VerdictKind) bool) (Verdict, error) {
	kind, rest, _ := strings.Cut(s, ";")
	v := Verdict{Kind: VerdictKind(kind)}
	if !accepted(v.Kind) {
		return Verdict{}, fmt.Errorf("cannot parse verdict %q: unknown kind", s)
	}
	for field := range strings.SplitSeq(rest, ";") {
		name, value, _ := strings.Cut(field, "=")
		if isText, err := v.setText(name, value); err != nil {
			return Verdict{}, fmt.Errorf("cannot parse verdict %.200q: %w", s, err)
		} else if isText {
			continue
		}
		size := 32
		if name == "revision" {
			size = 64
		}
		n, err := strconv.ParseInt(value, 10, size)
		if err == nil {
			v.setNumber(name, n)
		} else if isNumber(name) {
			return Verdict{}, fmt.Errorf("cannot parse verdict %q: %s: %w", s, name, err)
		}
	}
	return v, nil
}

// setText sets the field called name, and reports whether it is one that has text.
func (v *Verdict) setText(name, value string) (isText bool, err error) {
	switch name {
	case "":
	case "reason":
		v.Reason = value
	case "to":
		v.To = value
	case "at":
		if !isAddress(value) {
			return true, errors.New("at: not a host:port")
		}
		v.Address = value
	case "boot":
		if !isBoot(value) {
			return true, errors.New("boot: not a boot id")
		}
		v.Boot = value
	default:
		return false, nil
	}
	return true, nil
}

// maxRetryInterval bounds the retry interval of a verdict.
const maxRetryInterval = time.Minute

const (
	maxHost = 253 // length of the longest DNS name, in bytes
	maxBoot = 64  // length of the longest boot id, in bytes
)

// isAddress reports whether s is a host:port to which a verdict may send a request: a DNS name or an IP address, and a port from 1 to 65535.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || len(host) > maxHost {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' {
		return false
	}
	if strings.HasPrefix(s, "[") {
		ip, err := netip.ParseAddr(host)
		return err == nil && ip.Zone() == ""
	}
	return !strings.ContainsFunc(host, isNoNameRune)
}

// isBoot reports whether s can be the boot id of a process.
func isBoot(s string) bool {
	return s != "" && len(s) <= maxBoot && !strings.ContainsFunc(s, isNoNameRune)
}

// isNoNameRune reports whether a DNS name or a boot id cannot have r.
func isNoNameRune(r rune) bool {
	return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '-' || r == '.' || r == '_')
}

// isNumber reports whether name is that of a number in a verdict.
func isNumber(name string) bool {
	return slices.ContainsFunc(Verdict{}.numbers(), func(f numberField) bool { return f.name == name })
}

func (v *Verdict) setNumber(name string, n int64) {
	switch name {
	case "number":
		v.Number = int(n)
	case "engine":
		v.EngineStatus = int(n)
	case "retry_after_ms":
		v.RetryAfter = time.Duration(n) * time.Millisecond
	case "retry_interval_us":
		v.RetryInterval = min(time.Duration(n)*time.Microsecond, maxRetryInterval)
	case "expected_ms":
		v.Expected = time.Duration(n) * time.Millisecond
	case "retries":
		v.RetriesMade = int(n)
	case "broken":
		v.EndpointsFailed = int(n)
	case "may_wait":
		v.MayWait = n != 0
	case "unsent":
		v.Unsent = n != 0
	case "final":
		v.Final = n != 0
	case "protocol":
		v.Protocol = int(n)
	case "revision":
		v.Revision = n
	case "waited":
		v.Waited = n != 0
	case "drains":
		v.Drains = n != 0
	case "engines":
		v.Engines = uint32(max(n, 0))
	}
}

// Load is the state of one pool in one colo. Every response from there has it in the header x-colonnade-load, by which entries
// learn which colos are full.
type Load struct {
	Free, Held, Limit, Queued int
	Expected                  time.Duration // wait of a further request
	Known                     bool          // whether Expected was measured
	// Kinds of the engines of the pool, as a set of bits, for a request by whose path the form of errors depends on them; else 0.
	Engines uint32
}

// String returns the header's value.
func (l Load) String() string {
	var buffer [96]byte
	b := buffer[:0]
	for _, f := range [...]numberField{
		{"free=", int64(l.Free)}, {";held=", int64(l.Held)}, {";limit=", int64(l.Limit)}, {";queued=", int64(l.Queued)},
	} {
		b = strconv.AppendInt(append(b, f.name...), f.value, 10)
	}
	if l.Known {
		b = strconv.AppendInt(append(b, ";expected_ms="...), l.Expected.Milliseconds(), 10)
	}
	if l.Engines != 0 {
		b = strconv.AppendUint(append(b, ";engines="...), uint64(l.Engines), 10)
	}
	return string(b)
}

// ParseLoad parses the header's value.
func ParseLoad(s string) (Load, error) {
	l, rest := Load{}, s
	for more := true; more; {
		var field string
		field, rest, more = strings.Cut(rest, ";")
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return Load{}, fmt.Errorf("cannot parse load %q: %s: %w", s, name, err)
		}
		switch name {
		case "free":
			l.Free = int(n)
		case "held":
			l.Held = int(n)
		case "limit":
			l.Limit = int(n)
		case "queued":
			l.Queued = int(n)
		case "expected_ms":
			l.Expected, l.Known = time.Duration(n)*time.Millisecond, true
		case "engines":
			l.Engines = uint32(max(n, 0))
		}
	}
	return l, nil
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
