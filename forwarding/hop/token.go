package hop

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"
)

const (
	version = "v1."
	// tokenLifetime is how long a token is good: clocks may be five minutes apart in either direction.
	tokenLifetime = 10 * time.Minute
	// maxTokenSize bounds what is decoded before the signature has been checked.
	maxTokenSize = 8 << 10
)

// ErrBadToken is the reason for every refused token. It says nothing more to the sender; the log does.
var ErrBadToken = errors.New("hop token is not valid")

// Token is what the next server must know of a request. Durations are budgets left, never wall times, so that clocks
// need not agree.
type Token struct {
	Issued          int64    `json:"iat"` // Unix seconds
	RequestID       string   `json:"rid"`
	ClientRequestID string   `json:"crid,omitempty"`
	Source          string   `json:"src"` // where the request entered: the entry's node name
	Account         string   `json:"acc"`
	Weight          int      `json:"w"`
	Priority        string   `json:"pri"`
	Concurrent      int      `json:"con,omitempty"` // the account's cap of running requests
	Model           string   `json:"mod"`           // its own name, never an alias
	Visited         []string `json:"via,omitempty"` // servers on the way so far; those that an entry has tried before are not
	Hops            int      `json:"hops"`          // further hops allowed
	Attempt         int      `json:"att"`           // how many attempts were made before this one
	Retries         int      `json:"ret"`           // further attempts allowed after an engine's error
	EndpointsFailed int      `json:"brk,omitempty"` // endpoints this request has broken so far
	Wait            Wait     `json:"wait"`
	// WaitBelow is the least expected wait that another colo of the plan has named: with [WaitSpill], waiting here is
	// worth it up to that; 0 = none was named.
	WaitBelow Millis `json:"below,omitempty"`
	Waited    Millis `json:"waited,omitempty"` // spent in queues before; part of the one budget for waiting
	// Chance is that of the client coming back here if all of the plan refuse it: Retry-After reckons with so much of
	// it. 0 is not known, and counts as certain.
	ReturnProbability float64 `json:"chc,omitempty"`
	// Events asks for interim answers that say how the request waits: see [Progress].
	WantsProgress bool `json:"ev,omitempty"`
	// FirstByte is what is left until the client's own deadline for a first byte; 0 is none.
	FirstByte Millis `json:"fb,omitempty"`
	// Total is what is left for the whole request.
	Total Millis `json:"total"`
}

// Wait says whether a request may wait for a permit.
type Wait string

// The kinds of waiting.
const (
	WaitNever Wait = "never" // the client asked not to
	WaitSpill Wait = "spill" // only if it will be short: the plan has further colos
	WaitFull  Wait = "full"  // as long as the pool lets it
)

// Millis is a duration that travels as whole milliseconds.
type Millis time.Duration

// MarshalJSON writes milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(m).Milliseconds())
}

// UnmarshalJSON reads milliseconds, at most a day either way.
func (m *Millis) UnmarshalJSON(data []byte) error {
	var ms int64
	if err := json.Unmarshal(data, &ms); err != nil {
		return err
	}
	if ms > 24*3600*1000 || ms < -24*3600*1000 {
		return fmt.Errorf("%d ms is more than a day", ms)
	}
	*m = Millis(time.Duration(ms) * time.Millisecond)
	return nil
}

// Binding is what a token is bound to: it is worth nothing for another server, method, path or body.
type Binding struct {
	Audience string // the server's node name
	Method   string
	Path     string
	Body     []byte
}

// bodyDigest is what a token says of the body, so that it can be believed, or not, before the body has come.
type bodyDigest = [sha256.Size]byte

// Verified is what a token says of a request whose body has yet to come.
type Verified struct {
	Token  Token
	digest bodyDigest
}

// VerifyBody returns an error that wraps [ErrBadToken] unless body is the one that the token was signed for.
func (a *Verified) VerifyBody(body []byte) error {
	if sum := sha256.Sum256(body); subtle.ConstantTimeCompare(sum[:], a.digest[:]) == 0 {
		return fmt.Errorf("%w: signed for another body", ErrBadToken)
	}
	return nil
}

// sum returns the signature of payload for t. Every part is preceded by its length, so that no two targets read alike.
// t's own body does not count.
func (s *signer) sum(dst []byte, t Binding, body bodyDigest, payload []byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	var lengths [64]byte
	part := fmt.Appendf(lengths[:0], "%s%d %d %d ", version, len(t.Audience), len(t.Method), len(t.Path))
	mac.Write(part)
	mac.Write([]byte(t.Audience))
	mac.Write([]byte(t.Method))
	mac.Write([]byte(t.Path))
	mac.Write(body[:])
	mac.Write(payload)
	return mac.Sum(dst)
}

// Sign returns the token for h, issued now.
func (k *Keys) Sign(h Token, t Binding, now time.Time) (string, error) {
	h.Issued = now.Unix()
	payload, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("cannot encode hop token: %w", err)
	}
	var seal [2 * sha256.Size]byte // the body's digest, and the signature
	body := sha256.Sum256(t.Body)
	k.signers[0].sum(append(seal[:0], body[:]...), t, body, payload)
	enc := base64.RawURLEncoding
	token := make([]byte, 0, len(version)+enc.EncodedLen(len(payload))+1+enc.EncodedLen(len(seal)))
	token = append(token, version...)
	token = enc.AppendEncode(token, payload)
	token = append(token, '.')
	token = enc.AppendEncode(token, seal[:])
	if len(token) > maxTokenSize {
		return "", fmt.Errorf("cannot encode hop token: %d bytes, at most %d", len(token), maxTokenSize)
	}
	return string(token), nil
}

// VerifyHead returns what token says, if one of the keys signed it for t within the last ten minutes. The error wraps
// [ErrBadToken]. The body has not come yet: [Verified.VerifyBody] must then be asked about it, and t's own is not looked at.
func (k *Keys) VerifyHead(token string, t Binding, now time.Time) (Verified, error) {
	payload, seal, err := splitToken(token)
	if err != nil {
		return Verified{}, err
	}
	a := Verified{digest: bodyDigest(seal[:sha256.Size])}
	if !k.signed(seal[sha256.Size:], t, a.digest, payload) {
		return Verified{}, fmt.Errorf("%w: signed by nobody we know, or for another server or path", ErrBadToken)
	}
	if err := json.Unmarshal(payload, &a.Token); err != nil {
		return Verified{}, fmt.Errorf("%w: payload: %w", ErrBadToken, err)
	}
	if age := now.Sub(time.Unix(a.Token.Issued, 0)); age.Abs() > tokenLifetime {
		return Verified{}, fmt.Errorf("%w: issued %s ago by our clock; clocks may be at most 5m apart",
			ErrBadToken, age.Round(time.Second))
	}
	return a, nil
}

// splitToken decodes a token: what it says, and the body's digest with the signature.
func splitToken(token string) (payload, seal []byte, err error) {
	encoded, ok := strings.CutPrefix(token, version)
	if !ok || len(token) > maxTokenSize {
		return nil, nil, fmt.Errorf("%w: no %q token", ErrBadToken, version)
	}
	encodedPayload, encodedSeal, ok := strings.Cut(encoded, ".")
	if !ok {
		return nil, nil, fmt.Errorf("%w: no signature", ErrBadToken)
	}
	// Strict: two spellings of one token would be one too many.
	enc := base64.RawURLEncoding.Strict()
	if payload, err = enc.DecodeString(encodedPayload); err != nil {
		return nil, nil, fmt.Errorf("%w: payload: %w", ErrBadToken, err)
	}
	if seal, err = enc.DecodeString(encodedSeal); err != nil {
		return nil, nil, fmt.Errorf("%w: signature: %w", ErrBadToken, err)
	}
	if len(seal) != 2*sha256.Size {
		return nil, nil, fmt.Errorf("%w: signature has %d bytes, not %d", ErrBadToken, len(seal), 2*sha256.Size)
	}
	return payload, seal, nil
}

func (k *Keys) signed(mac []byte, t Binding, body bodyDigest, payload []byte) bool {
	var want [sha256.Size]byte
	for _, s := range k.signers {
		if hmac.Equal(mac, s.sum(want[:0], t, body, payload)) {
			return true
		}
	}
	return false
}
