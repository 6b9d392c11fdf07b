package transport_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"colonnade/internal/forwardtest"
)

// The turnaround of an exchange begins when its request is sent, and ends with the head of the response: signing a long body before, and
// waiting for the first byte of the body after, do not count.
func TestTurnaround(t *testing.T) {
	t.Parallel()
	const answersAfter, slow = 20 * time.Millisecond, 100 * time.Millisecond
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(answersAfter)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n")
		time.Sleep(slow)
		_, _ = io.WriteString(c, "{}")
	})
	tr := forwardtest.NewTransport(t)
	r := forwardtest.NewRequest(address)
	r.Sign = func(dst []byte) ([]byte, error) {
		time.Sleep(slow)
		return dst, nil
	}
	began := time.Now()
	a, err := tr.Do(t.Context(), r, forwardtest.ChatOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	// A busy machine may read the head a while after it was sent, and the body begins to be late when it was.
	if rest := time.Since(began) - a.Turnaround(); a.Turnaround() < answersAfter || rest < slow+slow/2 {
		t.Errorf("the turnaround is %s, and the rest took %s", a.Turnaround(), rest)
	}
}
