package wiretest

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
)

// The first byte of a WebSocket frame: the opcode, the final bit and the reserved bits (RFC 6455, section 5.2).
const (
	OpContinuation, OpText, OpBinary = 0, 1, 2
	OpClose, OpPing, OpPong          = 8, 9, 10
	FinBit, Rsv1, Rsv2, Rsv3         = 0x80, 0x40, 0x20, 0x10
)

const (
	maskBit                  = 0x80 // in the second byte, beside the length
	maskKey                  = "\x37\xfa\x21\x3d"
	length16Bit, length64Bit = 126, 127
)

// Frame is one WebSocket frame as it stands on the wire.
type Frame struct {
	Head    byte // final bit, reserved bits, opcode
	Payload string
}

// RawFrame returns a frame with any first byte.
func RawFrame(head byte, payload string) Frame { return Frame{Head: head, Payload: payload} }

// Text returns a whole text message.
func Text(s string) Frame { return Frame{FinBit | OpText, s} }

// Binary returns a whole binary message.
func Binary(s string) Frame { return Frame{FinBit | OpBinary, s} }

// FirstText returns the first fragment of a text message.
func FirstText(s string) Frame { return Frame{OpText, s} }

// Continuation returns a fragment that is neither the first nor the last.
func Continuation(s string) Frame { return Frame{OpContinuation, s} }

// LastContinuation returns the last fragment of a message.
func LastContinuation(s string) Frame { return Frame{FinBit | OpContinuation, s} }

// Ping returns a ping.
func Ping(s string) Frame { return Frame{FinBit | OpPing, s} }

// Pong returns a pong.
func Pong(s string) Frame { return Frame{FinBit | OpPong, s} }

// CloseFrame returns a close frame with a code.
func CloseFrame(code int, reason string) Frame {
	return Frame{FinBit | OpClose, string(binary.BigEndian.AppendUint16(nil, uint16(code))) + reason}
}

// Masked encodes the frame as a client sends it.
func (f Frame) Masked() []byte {
	b := append(f.appendHead(nil, maskBit), maskKey...)
	return append(b, mask([]byte(f.Payload), maskKey)...)
}

// AppendUnmasked appends the frame as a server sends it.
func (f Frame) AppendUnmasked(b []byte) []byte { return append(f.appendHead(b, 0), f.Payload...) }

func (f Frame) appendHead(b []byte, maskBit byte) []byte {
	b = append(b, f.Head)
	switch n := len(f.Payload); {
	case n < length16Bit:
		return append(b, maskBit|byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, maskBit|length16Bit), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, maskBit|length64Bit), uint64(n))
	}
}

// mask puts a mask on a payload, or takes it off, in place.
func mask(payload []byte, key string) []byte {
	subtle.XORBytes(payload, payload, bytes.Repeat([]byte(key), (len(payload)+3)/4))
	return payload
}

// ReadMasked reads a frame as a client sends it.
func ReadMasked(r *bufio.Reader) (Frame, error) {
	f, key, err := readAnyFrame(r)
	if err == nil && key == "" {
		err = errors.New("a client's frame is not masked")
	}
	return f, err
}

// ReadFrame reads a frame as a server sends it.
func ReadFrame(r *bufio.Reader) (Frame, error) {
	f, key, err := readAnyFrame(r)
	if err == nil && key != "" {
		err = errors.New("a server's frame is masked")
	}
	return f, err
}

func readAnyFrame(r *bufio.Reader) (f Frame, key string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, "", err
	}
	length := 0 // bytes that the length takes
	switch head[1] &^ maskBit {
	case length16Bit:
		length = 2
	case length64Bit:
		length = 8
	}
	var rest [8 + len(maskKey)]byte
	size := length
	if head[1]&maskBit != 0 {
		size += len(maskKey)
	}
	if _, err := io.ReadFull(r, rest[:size]); err != nil {
		return f, "", err
	}
	n := uint64(head[1] &^ maskBit)
	if length > 0 {
		n = 0
		for _, b := range rest[:length] {
			n = n<<8 | uint64(b)
		}
	}
	key = string(rest[length:size])
	payload := make([]byte, n)
	if _, err = io.ReadFull(r, payload); err == nil && key != "" {
		mask(payload, key)
	}
	return Frame{head[0], string(payload)}, key, err
}

// AcceptKey returns the Sec-WebSocket-Accept that answers a Sec-WebSocket-Key.
func AcceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
