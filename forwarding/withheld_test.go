package forwarding

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// Whether a request may still be sent is asked when its connection stands, since that may have taken long; then nothing of
// it goes out.
func TestWithheld(t *testing.T) {
	read := make(chan int64, 1)
	connected := make(chan struct{}, 1)
	r := testRequest(rawServer(t, func(c net.Conn) {
		connected <- struct{}{}
		n, _ := io.Copy(io.Discard, bufio.NewReader(c))
		read <- n
	}))
	r.May = func() bool {
		next(t, "a connection", connected)
		return false
	}
	r.Linger = time.Minute // of which there is no need: the other side has nothing in hand
	began := time.Now()
	if _, err := runningTransport(t).Do(context.Background(), r, chatShape); !errors.Is(err, ErrWithheld) {
		t.Errorf("error %v", err)
	}
	if n := next(t, "the end of the connection", read); n > 0 || time.Since(began) > patience {
		t.Errorf("%d bytes were sent, and it took %v", n, time.Since(began))
	}
}
