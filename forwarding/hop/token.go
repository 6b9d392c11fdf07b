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
	// tokenLifetime is the greatest difference between the time of issue and the clock of the verifier, either way: a token is
	// used within seconds, and clocks may be apart by minutes.
	tokenLifetime = 10 * time.Minute
	// maxTokenSize bounds what is decoded before the signature is verified.
	maxTokenSize = 8 << 10
)

// ErrBadToken is wrapped by every error about a token. The sender learns no more than that; the details go to the log.
var ErrBadToken = errors.New("hop token is not valid")

// Token is what the next server needs to know about a request. Durations are what remains of a budget, never times of day, so that
// clocks need not agree.
type Token struct {
	Issued          int64    `json:"iat"` // Unix seconds
	RequestID       string   `json:"rid"`
	ClientRequestID string   `json:"crid,omitempty"`
	Source          string   `json:"src"` // where the request entered: the entry's node name
	Account         string   `json:"acc"`
	Weight          int      `json:"w"`
	Priority        string   `json:"pri"`
	Concurrent      int      `json:"con,omitempty"` // the account's limit of running requests
	Model           string   `json:"mod"`           // its name, never an alias
	Visited         []string `json:"via,omitempty"` // the servers on the path so far, without earlier attempts of the entry
	HopsLeft        int      `json:"hops"`          // further hops allowed
	Attempt         int      `json:"att"`           // attempts before this one
	RetriesLeft     int      `json:"ret"`           // further attempts allowed after errors of engines
	EndpointsFailed int      `json:"brk,omitempty"` // endpoints that have failed with this request
	Wait            Wait     `json:"wait"`
	// WaitBelow is the smallest expected wait that another colo of the plan has reported: with [WaitSpill], the request waits here
	// only for less; 0 = none was reported.
	WaitBelow Millis `json:"below,omitempty"`
	Waited    Millis `json:"waited,omitempty"` // time spent in queues before, which counts against the budget for waiting
	// ReturnProbability is how likely the client comes back to this colo if all colos of the plan refuse it: Retry-After counts it
	// by that much. 0 = not known, which counts as 1.
	ReturnProbability float64 `json:"chc,omitempty"`
	// WantsProgress asks for interim responses with the [Progress] of the request while it waits.
	WantsProgress bool `json:"ev,omitempty"`
	// FirstByte is the time until the client's own deadline for the first byte; 0 = none.
	FirstByte Millis `json:"fb,omitempty"`
	// Total is the time left for the whole request.
	Total Millis `json:"total"`
}

// Wait says whether a request may wait for a permit.
type Wait string

// The values of Wait.
const (
	WaitNever Wait = "never" // the client asked not to
	WaitSpill Wait = "spill" // only if the wait is short, since the plan has further colos
	WaitFull  Wait = "full"  // as long as the pool allows
)

// Millis is a duration whose JSON form is a whole number of milliseconds.
type Millis time.Duration

// MarshalJSON returns milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(m).Milliseconds())
}

// UnmarshalJSON parses milliseconds, at most a day of them in either direction.
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

// Binding is what a token is bound to: it is not valid for another server, method, path or body.
type Binding struct {
	Audience string // the server's node name
	Method   string
	Path     string
	Body     []byte
}

// bodyDigest binds a token to a body. The token contains it, so that the token can be verified before the body has arrived.
type bodyDigest = [sha256.Size]byte

// Verified is a token whose signature is valid, for a request whose body has not been verified yet.
type Verified struct {
	Token  Token
	digest bodyDigest
}

// VerifyBody returns an error that wraps [ErrBadToken] unless the token was signed for body.
func (v *Verified) VerifyBody(body []byte) error {
	if sum := sha256.Sum256(body); subtle.ConstantTimeCompare(sum[:], v.digest[:]) == 0 {
		return fmt.Errorf("%w: signed for another body", ErrBadToken)
	}
	return nil
}

// sum appends the signature of payload for b to dst. The lengths of all parts come first, so that no two bindings hash alike. b.Body
// is not used.
func (s *signer) sum(dst []byte, b Binding, body bodyDigest, payload []byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	var lengths [64]byte
	part := fmt.Appendf(lengths[:0], "%s%d %d %d ", version, len(b.Audience), len(b.Method), len(b.Path))
	mac.Write(part)
	mac.Write([]byte(b.Audience))
	mac.Write([]byte(b.Method))
	mac.Write([]byte(b.Path))
	mac.Write(body[:])
	mac.Write(payload)
	return mac.Sum(dst)
}

// Sign returns h as a token for b, issued now.
func (k *Keys) Sign(h Token, b Binding, now time.Time) (string, error) {
	h.Issued = now.Unix()
	payload, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("cannot encode hop token: %w", err)
	}
	var seal [2 * sha256.Size]byte // the body's digest, and the signature
	body := sha256.Sum256(b.Body)
	k.signers[0].sum(append(seal[:0], body[:]...), b, body, payload)
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

// VerifyHead returns the content of token if one of the keys has signed it for b within ten minutes. The error wraps [ErrBadToken].
// b.Body is not used: once the body has arrived, the caller must call [Verified.VerifyBody].
func (k *Keys) VerifyHead(token string, b Binding, now time.Time) (Verified, error) {
	payload, seal, err := splitToken(token)
	if err != nil {
		return Verified{}, err
	}
	v := Verified{digest: bodyDigest(seal[:sha256.Size])}
	if !k.signed(seal[sha256.Size:], b, v.digest, payload) {
		return Verified{}, fmt.Errorf("%w: not signed by a key of this fleet, or for another server, method or path", ErrBadToken)
	}
	if err := json.Unmarshal(payload, &v.Token); err != nil {
		return Verified{}, fmt.Errorf("%w: payload: %w", ErrBadToken, err)
	}
	if age := now.Sub(time.Unix(v.Token.Issued, 0)); age.Abs() > tokenLifetime {
		return Verified{}, fmt.Errorf("%w: issued %s ago by our clock; clocks may be at most 10m apart",
			ErrBadToken, age.Round(time.Second))
	}
	return v, nil
}

// splitToken decodes a token into its payload and its seal: the body's digest and the signature.
func splitToken(token string) (payload, seal []byte, err error) {
	encoded, ok := strings.CutPrefix(token, version)
	if !ok || len(token) > maxTokenSize {
		return nil, nil, fmt.Errorf("%w: no %q token", ErrBadToken, version)
	}
	encodedPayload, encodedSeal, ok := strings.Cut(encoded, ".")
	if !ok {
		return nil, nil, fmt.Errorf("%w: no signature", ErrBadToken)
	}
	// Strict: a token has one encoding.
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

func (k *Keys) signed(mac []byte, b Binding, body bodyDigest, payload []byte) bool {
	var want [sha256.Size]byte
	for _, s := range k.signers {
		if hmac.Equal(mac, s.sum(want[:0], b, body, payload)) {
			return true
		}
	}
	return false
}
