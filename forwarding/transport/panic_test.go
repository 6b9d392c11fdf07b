package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"colonnade/internal/forwardtest"
)

// A panic in an exchange closes its connection, so that the engine stops.
func TestPanicInAnExchange(t *testing.T) {
	closed := make(chan error, 1)
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := forwardtest.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, forwardtest.StreamHead)
			_, err := br.ReadByte()
			closed <- err
		}
	})
	transport := forwardtest.NewTransport(t)
	r, ticks := forwardtest.NewRequest(address), 0
	r.Tick = func() time.Duration {
		if ticks++; ticks > 1 {
			panic("a bug of ours")
		}
		return time.Millisecond
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it has not panicked")
			}
		}()
		_, _ = transport.Do(context.Background(), r, forwardtest.ChatOptions)
	}()
	if err := forwardtest.Receive(t, "the engine to see the end", closed); err == nil || errors.Is(err, os.ErrDeadlineExceeded) { // or a reset: it was not read to its end
		t.Errorf("the engine's connection ended with %v", err)
	}
	if n := transport.Idle(); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
}
