package hop

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// binaryVersion is that of tokens in binary, for receivers from [BinaryTokenProtocol] on.
	binaryVersion = "v3."
	// version is that of tokens in JSON, for older receivers.
	version = "v2."
	// oldVersion is that of entries which have not been updated yet, so that nodes can be updated one after the other. Its tokens can be
	// used again until they expire. The version that follows the first release removes it.
	oldVersion = "v1."
	// tokenLifetime is the greatest difference between the time of issue and the clock of the verifier, either way: a token is
	// used within seconds, and clocks may be apart by minutes.
	tokenLifetime = 10 * time.Minute
	// maxTokenSize bounds what is decoded before the signature is verified.
	maxTokenSize = 8 << 10
)

// ErrBadToken is wrapped by every error about a token. The sender learns no more than that; the details go to the log.
var ErrBadToken = errors.New("hop token is not valid")

// Verified is a token whose signature is valid, for a request whose body has not been verified yet.
type Verified struct {
	Token  Token
	Old    bool // of the version before: it has no number, so it may be used again until it expires
	digest bodyDigest
}

// VerifyBody returns an error that wraps [ErrBadToken] unless the token was signed for body.
func (v *Verified) VerifyBody(body []byte) error {
	if sum := sha256.Sum256(body); subtle.ConstantTimeCompare(sum[:], v.digest[:]) == 0 {
		return fmt.Errorf("%w: signed for another body", ErrBadToken)
	}
	return nil
}

// Sign is AppendSigned for a token of its own.
func (k *Keys) Sign(h *Token, s *Sequence, b *Binding, now time.Time) (string, error) {
	token, err := k.AppendSigned(nil, h, s, b, now)
	return string(token), err
}

// AppendSigned signs h for b and appends the token to dst. The token is issued now and has the next number of s. h is changed: it gets these, and loses the last
// stops of Onward that do not fit.
func (k *Keys) AppendSigned(dst []byte, h *Token, s *Sequence, b *Binding, now time.Time) ([]byte, error) {
	h.Issued, h.Boot, h.Issuer, h.Number = now.Unix(), s.boot, s.issuer, s.next()
	if h.Headers != nil {
		h.Headers = &MoreHeaders{Names: h.Headers.Names, Sum: b.sumHeaders(h.Headers.Names)}
	}
	if b.Protocol < BinaryTokenProtocol {
		return k.signJSON(dst, h, b)
	}
	return k.signBinary(dst, h, b)
}

// signBinary appends a token in binary: the version, and in one encoding the body's digest, the payload and the signature.
func (k *Keys) signBinary(dst []byte, h *Token, b *Binding) ([]byte, error) {
	buffer := k.takeBuffer()
	defer k.putBuffer(buffer)
	digest := sha256.Sum256(b.Body)
	message := b.appendMessage(*buffer, binaryVersion, &digest, nil)
	content := len(message) - len(digest)
	message, err := h.appendPayload(message)
	size := func() int {
		return len(binaryVersion) + base64.RawURLEncoding.EncodedLen(len(message)-content+sha256.Size)
	}
	for room := cmp.Or(b.MaxToken, maxTokenSize); err == nil && len(h.Onward) > 0 && size() > min(room, maxTokenSize); {
		h.Onward = h.Onward[:len(h.Onward)-1]
		message, err = h.appendPayload(message[:content+len(digest)])
	}
	if err == nil && size() > maxTokenSize {
		err = fmt.Errorf("%d bytes, at most %d", size(), maxTokenSize)
	}
	if err != nil {
		return dst, fmt.Errorf("cannot encode hop token: %w", err)
	}
	message = k.signers()[0].sum(message, message)
	*buffer = message // for its capacity
	dst = append(dst, binaryVersion...)
	return base64.RawURLEncoding.AppendEncode(dst, message[content:]), nil
}

// signJSON appends a token in JSON.
func (k *Keys) signJSON(dst []byte, t *Token, b *Binding) ([]byte, error) {
	h := *t // which json moves to the heap
	payload, err := json.Marshal(&h)
	for room := cmp.Or(b.MaxToken, maxTokenSize); err == nil && len(h.Onward) > 0 && tokenSize(payload) > min(room, maxTokenSize); {
		h.Onward = h.Onward[:len(h.Onward)-1]
		payload, err = json.Marshal(&h)
	}
	if err != nil {
		return dst, fmt.Errorf("cannot encode hop token: %w", err)
	}
	var seal [2 * sha256.Size]byte // the body's digest, and the signature
	digest := sha256.Sum256(b.Body)
	message := k.takeBuffer()
	defer k.putBuffer(message)
	*message = b.appendMessage(*message, version, &digest, payload)
	k.signers()[0].sum(append(seal[:0], digest[:]...), *message)
	size := tokenSize(payload)
	if size > maxTokenSize {
		return dst, fmt.Errorf("cannot encode hop token: %d bytes, at most %d", size, maxTokenSize)
	}
	enc := base64.RawURLEncoding
	dst = append(dst, version...)
	dst = enc.AppendEncode(dst, payload)
	dst = append(dst, '.')
	return enc.AppendEncode(dst, seal[:]), nil
}

// tokenSize returns the length of the token in JSON with this payload, in bytes.
func tokenSize(payload []byte) int {
	enc := base64.RawURLEncoding
	return len(version) + enc.EncodedLen(len(payload)) + 1 + enc.EncodedLen(2*sha256.Size)
}

// VerifyHead sets v, which is zero, to the content of token if one of the keys has signed it for b within ten minutes. The error wraps
// [ErrBadToken]; after an error, v is not to be used. b.Body is not used: once the body has arrived, the caller must call
// [Verified.VerifyBody]. The token may have been used before: see [ReplayGuard].
func (k *Keys) VerifyHead(v *Verified, token []byte, b *Binding, now time.Time) error {
	var err error
	if bytes.HasPrefix(token, []byte(binaryVersion)) {
		err = k.verifyBinary(v, token, b)
	} else {
		err = k.verifyJSON(v, token, b)
	}
	if err != nil {
		return err
	}
	if more := v.Token.Headers; more != nil && subtle.ConstantTimeCompare(more.Sum, b.sumHeaders(more.Names)) == 0 {
		return fmt.Errorf("%w: signed for other values of the headers %q", ErrBadToken, more.Names)
	}
	if age := now.Sub(time.Unix(v.Token.Issued, 0)); age.Abs() > tokenLifetime {
		return fmt.Errorf("%w: issued %s ago by our clock; clocks may be at most 10m apart",
			ErrBadToken, age.Round(time.Second))
	}
	if err := v.checkOnward(b.Audience); err != nil {
		return fmt.Errorf("%w: onward: %w", ErrBadToken, err)
	}
	return nil
}

var errNotSigned = fmt.Errorf("%w: not signed by a key of this fleet, or for another server, request line or header", ErrBadToken)

// verifyBinary takes the content of a token in binary, if one of the keys has signed it.
func (k *Keys) verifyBinary(v *Verified, token []byte, b *Binding) error {
	if len(token) > maxTokenSize {
		return fmt.Errorf("%w: over %d bytes", ErrBadToken, maxTokenSize)
	}
	buffer := k.takeBuffer()
	defer k.putBuffer(buffer)
	message := b.appendBinding(*buffer, binaryVersion)
	content := len(message)
	message, err := appendDecoded(message, token[len(binaryVersion):])
	signed := len(message) - sha256.Size
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBadToken, err)
	case signed < content+len(v.digest):
		return fmt.Errorf("%w: no signature", ErrBadToken)
	}
	*buffer = message
	if !k.isSigned(buffer, signed) {
		return errNotSigned
	}
	payload := message[content+copy(v.digest[:], message[content:]) : signed]
	if err := v.Token.parsePayload(string(payload)); err != nil {
		return fmt.Errorf("%w: payload: %w", ErrBadToken, err)
	}
	return nil
}

// isSigned reports whether one of the keys has made the signature that stands behind the first bytes of a buffer, for these bytes.
func (k *Keys) isSigned(buffer *[]byte, signed int) bool {
	message, end := *buffer, len(*buffer)
	for _, s := range k.signers() {
		if *buffer = s.sum(message, message[:signed]); hmac.Equal(message[signed:], (*buffer)[end:]) {
			return true
		}
	}
	return false
}

// appendDecoded appends the bytes in a base64url encoding, which is the only one of these bytes.
func appendDecoded(dst, encoded []byte) ([]byte, error) {
	enc, before := base64.RawURLEncoding, len(dst)
	dst, err := enc.AppendDecode(dst, encoded)
	if err != nil {
		return dst, err
	}
	// The decoder ignores line ends, and bits that are left over.
	var last [4]byte
	n := (len(dst) - before) % 3
	tail := enc.AppendEncode(last[:0], dst[len(dst)-n:])
	if len(encoded) != enc.EncodedLen(len(dst)-before) || !bytes.HasSuffix(encoded, tail) {
		return dst, errEncoding
	}
	return dst, nil
}

// verifyJSON takes the content of a token in JSON, if one of the keys has signed it.
func (k *Keys) verifyJSON(v *Verified, token []byte, b *Binding) error {
	parts, err := splitToken(string(token))
	if err != nil {
		return err
	}
	v.digest, v.Old = bodyDigest(parts.seal[:sha256.Size]), parts.old
	if !k.signed(&parts, b, &v.digest) {
		return errNotSigned
	}
	var t Token // which json moves to the heap
	if err := json.Unmarshal(parts.payload, &t); err != nil {
		return fmt.Errorf("%w: payload: %w", ErrBadToken, err)
	}
	v.Token = t
	return nil
}

// tokenParts are the payload of a token in JSON, and its seal: the body's digest and the signature.
type tokenParts struct {
	old           bool
	payload, seal []byte
}

func splitToken(token string) (t tokenParts, err error) {
	encoded, ok := strings.CutPrefix(token, version)
	if !ok {
		encoded, t.old = strings.CutPrefix(token, oldVersion)
	}
	if !ok && !t.old || len(token) > maxTokenSize {
		return t, fmt.Errorf("%w: no %q token", ErrBadToken, version)
	}
	encodedPayload, encodedSeal, ok := strings.Cut(encoded, ".")
	if !ok {
		return t, fmt.Errorf("%w: no signature", ErrBadToken)
	}
	// Strict: a token has one encoding.
	enc := base64.RawURLEncoding.Strict()
	if t.payload, err = enc.DecodeString(encodedPayload); err != nil {
		return t, fmt.Errorf("%w: payload: %w", ErrBadToken, err)
	}
	if t.seal, err = enc.DecodeString(encodedSeal); err != nil {
		return t, fmt.Errorf("%w: signature: %w", ErrBadToken, err)
	}
	if len(t.seal) != 2*sha256.Size {
		return t, fmt.Errorf("%w: signature has %d bytes, not %d", ErrBadToken, len(t.seal), 2*sha256.Size)
	}
	return t, nil
}

// signed reports whether one of the keys has signed a token for b, under either name of the audience.
func (k *Keys) signed(t *tokenParts, b *Binding, digest *bodyDigest) bool {
	if k.signedFor(t, b, digest) {
		return true
	}
	old := *b
	old.Audience = b.OldAudience
	return old.Audience != "" && k.signedFor(t, &old, digest)
}

func (k *Keys) signedFor(t *tokenParts, b *Binding, digest *bodyDigest) bool {
	message := k.takeBuffer()
	defer k.putBuffer(message)
	if t.old {
		*message = b.appendOldMessage(*message, digest, t.payload)
	} else {
		*message = b.appendMessage(*message, version, digest, t.payload)
	}
	var want [sha256.Size]byte
	for _, s := range k.signers() {
		if hmac.Equal(t.seal[sha256.Size:], s.sum(want[:0], *message)) {
			return true
		}
	}
	return false
}
