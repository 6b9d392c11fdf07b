package transport_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"colonnade/internal/forwardtest"
)

// The limits of one exchange do not hold for the next on the same connection, whatever the length of its body.
func TestLimitsEndWithTheirExchange(t *testing.T) {
	t.Parallel()
	address := forwardtest.ListenRaw(t, forwardtest.AnswerWith("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	tr := forwardtest.NewTransport(t)
	for _, size := range []int{0, 10, 100 << 10, 100 << 10} {
		r := forwardtest.NewRequest(address)
		r.Body = make([]byte, size)
		if size == 0 {
			r.Deadline = time.Now().Add(500 * time.Millisecond)
		}
		resp, err := tr.Do(t.Context(), r, forwardtest.ChatOptions)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if _, err := drain(resp); !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if size == 0 {
			time.Sleep(time.Until(r.Deadline) + time.Millisecond)
		}
		if n := tr.Idle(); n != 1 {
			t.Errorf("%d idle connections", n)
		}
	}
}
