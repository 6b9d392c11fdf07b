package netconn

import (
	"errors"
	"syscall"

	"colonnade/forwarding/link"
)

// TryWriter writes to a TCP connection, or to a stream of a link, without waiting. It is for one goroutine at a time.
type TryWriter struct {
	stream *link.Stream // instead of socket
	socket *Socket
	write  func(fd uintptr) bool // method value of try
	p      []byte
	n      int
	err    error
}

// NewTryWriter returns a TryWriter for a connection.
func NewTryWriter(s *Socket) *TryWriter {
	t := &TryWriter{socket: s}
	t.write = t.try
	return t
}

// NewStreamTryWriter returns a TryWriter for a stream.
func NewStreamTryWriter(s *link.Stream) *TryWriter { return &TryWriter{stream: s} }

// Write writes what the socket, or the link, takes at once, and returns how many bytes that were. It fails after the write deadline has passed.
func (t *TryWriter) Write(p []byte) (int, error) {
	if t.stream != nil {
		return t.stream.TryWrite(p)
	}
	t.p, t.n, t.err = p, 0, nil
	if err := t.socket.writeWith(t.write); err != nil {
		return t.n, err
	}
	t.p = nil
	return t.n, t.err
}

func (t *TryWriter) try(fd uintptr) bool {
	for {
		n, err := writeNow(int(fd), t.p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
		case err != nil:
			t.err = err
		default:
			t.n = n
		}
		return true
	}
}
