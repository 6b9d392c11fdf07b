package light

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/internal/ctxtime"
)

const (
	dialTimeout = 5 * time.Second
	// readTimeout is how long a log forwarder may take to read a batch.
	readTimeout = 30 * time.Second
)

// socket writes events as lines to a stream socket.
type socket struct {
	ship.Receiver

	path string
	conn *net.UnixConn // nil until the first batch, and after an error
}

func newSocket(s *sinks.Spec) *socket { return &socket{path: s.URL.Path} }

// Check implements [ship.Sink].
func (s *socket) Check(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	c, err := dialer.DialContext(ctx, "unix", s.path)
	if err != nil {
		return fmt.Errorf("cannot connect to %s: %w", s.path, err)
	}
	s.conn = c.(*net.UnixConn)
	return nil
}

// Send implements [ship.Sink]. The protocol has no acknowledgement: a batch counts as taken once the other side has read it from the
// socket, where the system says that, and else once the kernel has it.
func (s *socket) Send(ctx context.Context, b *ship.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.Check(ctx); err != nil {
		return err
	}
	if err := s.write(ctx, b.NDJSON()); err != nil {
		_ = s.Close() // a batch of which the other side has a part comes again as a whole, over another connection
		return fmt.Errorf("cannot write to %s: %w", s.path, err)
	}
	return nil
}

func (s *socket) write(ctx context.Context, lines []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := s.conn.Write(lines); err != nil {
		return err
	}
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		unread, err := unreadBytes(s.conn)
		if err != nil || unread == 0 {
			return err
		}
		if !ctxtime.Sleep(ctx, wait) {
			return errors.New("the other side does not read")
		}
	}
}

// Close implements [ship.Sink].
func (s *socket) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
