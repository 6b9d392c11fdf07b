package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
)

var errGivenUp = errors.New("given up")

// An Abort ends an exchange that has yet to begin, one whose server is being connected, and one that waits for its first byte. Do returns
// the cause, and the connection is closed.
func TestAbort(t *testing.T) {
	f := func(name string, ended bool, target func(*transport.Target), serve func(net.Conn, func())) {
		t.Run(name, func(t *testing.T) {
			abort := new(transport.Abort)
			closed := make(chan struct{})
			address := forwardtest.ListenRaw(t, func(c net.Conn) {
				serve(c, func() { abort.End(errGivenUp) })
				_, _ = io.Copy(io.Discard, c) // until the other side has closed
				close(closed)
			})
			r := forwardtest.NewRequest(address)
			r.Abort = abort
			target(&r.Target)
			if ended {
				abort.End(errGivenUp)
				abort.End(errors.New("a later cause"))
				close(closed) // there is no connection
			}
			_, err := forwardtest.NewTransport(t).Do(t.Context(), r, forwardtest.ChatOptions)
			if !errors.Is(err, errGivenUp) {
				t.Errorf("error %v, want the cause", err)
			}
			<-closed
		})
	}
	plain := func(*transport.Target) {}
	f("before it begins", true, plain, nil)
	f("before the first byte", false, plain, func(c net.Conn, end func()) {
		_, _ = c.Read(make([]byte, 1))
		end()
	})
	f("during the TLS handshake", false, func(to *transport.Target) { to.ServerName = "engine" }, func(c net.Conn, end func()) {
		_, _ = c.Read(make([]byte, 1))
		end()
	})
}

// An Abort has no effect on a connection that has gone back to the idle ones.
func TestLateAbort(t *testing.T) {
	var conns atomic.Int32
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		conns.Add(1)
		forwardtest.AnswerWith(plainAnswer)(c)
	})
	tr := forwardtest.NewTransport(t)
	for range 3 {
		r := forwardtest.NewRequest(address)
		r.Abort = new(transport.Abort)
		a, err := tr.Do(context.Background(), r, forwardtest.ChatOptions)
		if err != nil {
			t.Fatal(err)
		}
		r.Abort.End(errGivenUp)
		a.Close()
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
