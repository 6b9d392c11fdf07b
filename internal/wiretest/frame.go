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

// What stands in the first byte of a frame.
const (
	OpContinuation, OpText, OpBinary = 0, 1, 2
	OpClose, OpPing, OpPong          = 8, 9, 10
	FinBit, Rsv1, Rsv2, Rsv3         = 0x80, 0x40, 0x20, 0x10
	frameMask                        = "\x37\xfa\x21\x3d"
	payload16Bit, payload64Bit       = 126, 127
)

// Frame is one frame, as it stands on the wire.
type Frame struct {
	Head    byte // final bit, reserved bits, opcode
	Payload string
}

func Text(s string) Frame { return Frame{FinBit | OpText, s} }

func Binary(s string) Frame { return Frame{FinBit | OpBinary, s} }

func FirstText(s string) Frame { return Frame{OpText, s} }

func Continuation(s string) Frame { return Frame{OpContinuation, s} }

func LastContinuation(s string) Frame { return Frame{FinBit | OpContinuation, s} }

func Ping(s string) Frame { return Frame{FinBit | OpPing, s} }

func Pong(s string) Frame { return Frame{FinBit | OpPong, s} }

func CloseFrame(code int, reason string) Frame {
	return Frame{FinBit | OpClose, string(binary.BigEndian.AppendUint16(nil, uint16(code))) + reason}
}

// Masked is the frame as a client sends it.
func (f Frame) Masked() []byte {
	b := []byte{f.Head}
	switch n := len(f.Payload); {
	case n < payload16Bit:
		b = append(b, 0x80|byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|payload16Bit), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|payload64Bit), uint64(n))
	}
	b = append(b, frameMask...)
	return append(b, mask([]byte(f.Payload), frameMask)...)
}

// mask puts a mask on, or takes it off.
func mask(payload []byte, with string) []byte {
	subtle.XORBytes(payload, payload, bytes.Repeat([]byte(with), (len(payload)+3)/4))
	return payload
}

// AppendUnmasked appends the frame as a server sends it.
func (f Frame) AppendUnmasked(b []byte) []byte {
	b = append(b, f.Head)
	switch n := len(f.Payload); {
	case n < payload16Bit:
		b = append(b, byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, payload16Bit), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, payload64Bit), uint64(n))
	}
	return append(b, f.Payload...)
}

// ReadMasked reads a frame as a client sends it.
func ReadMasked(br *bufio.Reader) (Frame, error) {
	f, key, err := readAnyFrame(br)
	if err == nil && key == "" {
		err = errors.New("a client's frame is not masked")
	}
	return f, err
}

// ReadFrame reads a frame as a server sends it.
func ReadFrame(br *bufio.Reader) (Frame, error) {
	f, key, err := readAnyFrame(br)
	if err == nil && key != "" {
		err = errors.New("a server's frame is masked")
	}
	return f, err
}

func readAnyFrame(br *bufio.Reader) (f Frame, key string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return f, "", err
	}
	length := 0 // bytes that the length takes
	switch head[1] & 0x7f {
	case payload16Bit:
		length = 2
	case payload64Bit:
		length = 8
	}
	var rest [8 + len(frameMask)]byte
	size := length
	if head[1]&0x80 != 0 {
		size += len(frameMask)
	}
	if _, err := io.ReadFull(br, rest[:size]); err != nil {
		return f, "", err
	}
	n := uint64(head[1] & 0x7f)
	if length > 0 {
		n = 0
		for _, b := range rest[:length] {
			n = n<<8 | uint64(b)
		}
	}
	key = string(rest[length:size])
	payload := make([]byte, n)
	if _, err = io.ReadFull(br, payload); err == nil && key != "" {
		mask(payload, key)
	}
	return Frame{head[0], string(payload)}, key, err
}

// AcceptKey is the answer to a handshake's key.
func AcceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// RawFrame returns a frame with any first byte: the final bit, the reserved bits and the opcode.
func RawFrame(head byte, payload string) Frame { return Frame{Head: head, Payload: payload} }
