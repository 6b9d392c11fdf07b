package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
)

// The precondition of a request is checked when the connection has been made, which may take long. If it is false, nothing is sent.
func TestPrecondition(t *testing.T) {
	read := make(chan int64, 1)
	connected := make(chan struct{}, 1)
	r := forwardtest.NewRequest(forwardtest.ListenRaw(t, func(c net.Conn) {
		connected <- struct{}{}
		n, _ := io.Copy(io.Discard, bufio.NewReader(c))
		read <- n
	}))
	r.Precondition = func() bool {
		forwardtest.Receive(t, "a connection", connected)
		return false
	}
	r.Linger = time.Minute // which does not matter: the server has nothing to end
	began := time.Now()
	if _, err := forwardtest.NewTransport(t).Do(context.Background(), r, forwardtest.ChatOptions); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("error %v", err)
	}
	if n := forwardtest.Receive(t, "the end of the connection", read); n > 0 || time.Since(began) > forwardtest.Patience {
		t.Errorf("%d bytes were sent, and it took %v", n, time.Since(began))
	}
}
