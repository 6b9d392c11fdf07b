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

// Whether a request may still be sent is asked when its connection stands, since that may have taken long; then nothing of
// it goes out.
func TestWithheld(t *testing.T) {
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
	r.Linger = time.Minute // of which there is no need: the other side has nothing in hand
	began := time.Now()
	if _, err := forwardtest.NewTransport(t).Do(context.Background(), r, forwardtest.ChatOptions); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("error %v", err)
	}
	if n := forwardtest.Receive(t, "the end of the connection", read); n > 0 || time.Since(began) > forwardtest.Patience {
		t.Errorf("%d bytes were sent, and it took %v", n, time.Since(began))
	}
}
