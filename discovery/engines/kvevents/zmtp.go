package kvevents

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

const (
	maxMessage = 4 << 20 // bytes of all frames
	maxFrames  = 8
	maxCommand = 1 << 10 // bytes

	handshakeTimeout = 10 * time.Second
)

// Flags of a frame.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

var (
	errNotZMTP = errors.New("the publisher does not speak ZMTP 3 without security")
	errTooLong = errors.New("a message of the publisher is too long")
)

// subscription is a connection to a publisher.
type subscription struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte // of the last message; its frames are in it
}

// subscribe performs the handshake with a publisher and asks for the messages of all topics.
func subscribe(conn net.Conn) (*subscription, error) {
	s := &subscription{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(hello()); err != nil {
		return nil, err
	}
	var theirs [64]byte
	if _, err := io.ReadFull(s.in, theirs[:]); err != nil {
		return nil, fmt.Errorf("cannot read the handshake: %w", err)
	}
	if theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 || string(theirs[12:17]) != "NULL\x00" {
		return nil, errNotZMTP
	}
	if err := s.ready(); err != nil {
		return nil, err
	}
	if err := s.send(0, []byte{1}); err != nil {
		return nil, err
	}
	return s, conn.SetDeadline(time.Time{})
}

// hello is the first thing that both sides send: signature, version 3.0, mechanism NULL.
func hello() []byte {
	g := make([]byte, 64)
	g[0], g[8], g[9], g[10] = 0xff, 1, 0x7f, 3
	copy(g[12:], "NULL")
	return g
}

// ready sends READY as a subscriber, and reads the publisher's.
func (s *subscription) ready() error {
	if err := s.send(flagCommand, []byte("\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB")); err != nil {
		return err
	}
	flags, size, err := s.head()
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 || size > maxCommand {
		return errNotZMTP
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(s.in, body); err != nil {
		return err
	}
	if len(body) < 6 || string(body[:6]) != "\x05READY" {
		return errNotZMTP
	}
	return nil
}

func (s *subscription) send(flags byte, body []byte) error {
	_, err := s.conn.Write(appendFrame(nil, flags, body))
	return err
}

func appendFrame(dst []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		dst = binary.BigEndian.AppendUint64(append(dst, flags|flagLong), uint64(len(body)))
	} else {
		dst = append(dst, flags, byte(len(body)))
	}
	return append(dst, body...)
}

// head reads the head of a frame.
func (s *subscription) head() (flags byte, size uint64, err error) {
	if flags, err = s.in.ReadByte(); err != nil {
		return 0, 0, err
	}
	if flags&flagLong == 0 {
		short, err := s.in.ReadByte()
		return flags, uint64(short), err
	}
	var long [8]byte
	_, err = io.ReadFull(s.in, long[:])
	return flags, binary.BigEndian.Uint64(long[:]), err
}

// message reads the next message. Its frames are valid until the next call.
func (s *subscription) message() (frames [][]byte, size int, err error) {
	s.body = s.body[:0]
	var ends []int
	for more := true; more; {
		flags, size, err := s.head()
		if err != nil {
			return nil, 0, err
		}
		if size > uint64(maxMessage-len(s.body)) || len(ends) == maxFrames || flags&flagCommand != 0 && size > maxCommand {
			return nil, 0, errTooLong
		}
		begin := len(s.body)
		s.body = slices.Grow(s.body, int(size))[:begin+int(size)]
		if _, err := io.ReadFull(s.in, s.body[begin:]); err != nil {
			return nil, 0, err
		}
		if flags&flagCommand != 0 {
			err = s.command(s.body[begin:])
			s.body = s.body[:begin]
			if err != nil {
				return nil, 0, err
			}
			continue
		}
		ends, more = append(ends, len(s.body)), flags&flagMore != 0
	}
	begin := 0
	for _, end := range ends {
		frames, begin = append(frames, s.body[begin:end]), end
	}
	return frames, len(s.body), nil
}

// command answers a PING, which publishers with heartbeats send, and ignores all else.
func (s *subscription) command(body []byte) error {
	const ping = "\x04PING"
	if len(body) < len(ping)+2 || string(body[:len(ping)]) != ping {
		return nil
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	return s.send(flagCommand, append([]byte("\x04PONG"), body[len(ping)+2:]...)) // without the time to live
}
