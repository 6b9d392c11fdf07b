package cost

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // RFC 6455 asks for it, and nothing is secret
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
)

// First bytes of whole WebSocket frames (RFC 6455, section 5.2), and the bit beside the length that says that a mask follows.
const (
	textFrame  = 0x81
	closeFrame = 0x88
	pingFrame  = 0x89
	pongFrame  = 0x8a
	maskBit    = 0x80
)

// longestFrame bounds the payload of a frame; length16Bit says that two bytes of length follow.
const (
	longestFrame = 4 << 10
	length16Bit  = 126
)

// mask is the mask of every client's frame.
const mask = "\x37\xfa\x21\x3d"

// acceptKey answers the key of a handshake.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// frame is one whole frame.
type frame struct {
	first   byte
	payload []byte
}

// appendTo appends the frame as a client or a server sends it.
func (f frame) appendTo(b []byte, fromClient bool) []byte {
	bit := byte(0)
	if fromClient {
		bit = maskBit
	}
	b = append(b, f.first)
	if n := len(f.payload); n < length16Bit {
		b = append(b, bit|byte(n))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, bit|length16Bit), uint16(n))
	}
	if !fromClient {
		return append(b, f.payload...)
	}
	b = append(b, mask...)
	at := len(b)
	b = append(b, f.payload...)
	applyMask(b[at:], []byte(mask))
	return b
}

func applyMask(payload, key []byte) {
	for i := range payload {
		payload[i] ^= key[i%len(key)]
	}
}

var errFrame = errors.New("a frame that is longer than any that was sent")

// readFrame reads a frame into a buffer.
func readFrame(in *bufio.Reader, buffer []byte) (f frame, err error) {
	var start [8]byte
	if _, err := io.ReadFull(in, start[:2]); err != nil {
		return f, err
	}
	masked, n := start[1]&maskBit != 0, int(start[1]&^maskBit)
	f.first = start[0]
	if n == length16Bit {
		if _, err := io.ReadFull(in, start[2:4]); err != nil {
			return f, err
		}
		n = int(binary.BigEndian.Uint16(start[2:4]))
	}
	if n > len(buffer) {
		return f, errFrame
	}
	if masked {
		if _, err := io.ReadFull(in, start[4:8]); err != nil {
			return f, err
		}
	}
	f.payload = buffer[:n]
	if _, err := io.ReadFull(in, f.payload); err != nil {
		return f, err
	}
	if masked {
		applyMask(f.payload, start[4:8])
	}
	return f, nil
}
