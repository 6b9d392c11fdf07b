package link

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// kind is the type of a frame.
type kind uint8

const (
	kindOpen   kind = iota + 1 // opens a stream; the payload is its first bytes
	kindData                   // further bytes of a stream
	kindWindow                 // the payload is by how many bytes more the other side may send, as a uint32
	kindReset                  // ends a stream in both directions
	kindPing                   // asks for a pong
	kindPong
	kindGoAway // no stream is opened, or accepted, any more; the stream id is the last that was accepted
)

const (
	// flagFin on a frame with bytes says that the sender sends no more of them.
	flagFin = 1 << 0
	// flagRefused on a reset says that the stream was not accepted: nothing has happened.
	flagRefused = 1 << 1
)

const (
	headerSize = 8
	// maxPayload is the greatest length of a payload in bytes: a frame is a turn among those of other streams.
	maxPayload = 16 << 10
)

// frame is a message of one side to the other.
type frame struct {
	kind    kind
	flags   uint8
	stream  uint32 // 0 = the link
	payload []byte
}

// append appends the frame.
func (f *frame) append(b []byte) []byte {
	b = append(b, byte(f.kind), f.flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(f.payload)))
	b = binary.LittleEndian.AppendUint32(b, f.stream)
	return append(b, f.payload...)
}

// errProtocol is wrapped by the error of a link whose other side has sent what it must not.
var errProtocol = errors.New("the other side has violated the protocol of links")

// parse returns the first frame of b and its size in bytes; the size is 0 if the frame has not arrived as a whole. The payload is part of b.
func parse(b []byte) (f frame, size int, err error) {
	if len(b) < headerSize {
		return frame{}, 0, nil
	}
	f.kind, f.flags, f.stream = kind(b[0]), b[1], binary.LittleEndian.Uint32(b[4:])
	length := int(binary.LittleEndian.Uint16(b[2:]))
	if err := f.check(length); err != nil {
		return frame{}, 0, err
	}
	if size = headerSize + length; len(b) < size {
		return frame{}, 0, nil
	}
	f.payload = b[headerSize:size]
	return f, size, nil
}

// check returns an error unless the header is one that a side may send.
func (f *frame) check(length int) error {
	flags, lengths, ofStream := uint8(0), [2]int{}, true
	switch f.kind {
	case kindOpen, kindData:
		flags, lengths[1] = flagFin, maxPayload
	case kindWindow:
		lengths = [2]int{4, 4}
	case kindReset:
		flags = flagRefused
	case kindPing, kindPong:
		ofStream = false
	case kindGoAway:
		ofStream = f.stream != 0 // either
	default:
		return fmt.Errorf("%w: a frame of the type %d", errProtocol, f.kind)
	}
	if f.flags&^flags != 0 || length < lengths[0] || length > lengths[1] || ofStream != (f.stream != 0) {
		return fmt.Errorf("%w: a frame of the type %d with flags %#x, %d bytes and stream %d", errProtocol, f.kind, f.flags, length, f.stream)
	}
	return nil
}

// windowFrame returns a frame that lets the other side of a stream send more.
func windowFrame(stream uint32, more int) frame {
	return frame{kind: kindWindow, stream: stream, payload: binary.LittleEndian.AppendUint32(nil, uint32(more))}
}
