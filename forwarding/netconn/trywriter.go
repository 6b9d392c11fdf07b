package netconn

import (
	"errors"
	"net"
	"syscall"
)

// TryWriter writes to a TCP connection without waiting. It is for one goroutine at a time.
type TryWriter struct {
	raw   syscall.RawConn
	write func(fd uintptr) bool // method value of try
	p     []byte
	n     int
	err   error
}

// NewTryWriter returns a TryWriter for a connection.
func NewTryWriter(tcp *net.TCPConn) (*TryWriter, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	t := &TryWriter{raw: raw}
	t.write = t.try
	return t, nil
}

// Write writes what the socket takes at once, and returns how many bytes that were. It fails after the write deadline has passed.
func (t *TryWriter) Write(p []byte) (int, error) {
	t.p, t.n, t.err = p, 0, nil
	if err := t.raw.Write(t.write); err != nil {
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
