package transport_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
)

// A request that is sent on a second connection, after its server has refused it on a kept one before it had the body, is signed again:
// the server may take a signature once only.
func TestEachSendIsSigned(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			mu.Lock()
			seen = append(seen, r.Header.Get(hop.HeaderToken))
			mu.Unlock()
			if r.ContentLength > 100 {
				_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
				_, _ = io.Copy(io.Discard, c)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, echo("ok"))
		}
	})
	tr := forwardtest.NewTransport(t)
	signed := 0
	send := func(size int) (*transport.Response, error) {
		r := forwardtest.NewRequest(address)
		r.Body = make([]byte, size)
		r.Sign = func(dst []byte) ([]byte, error) {
			signed++
			return strconv.AppendInt(dst, int64(signed), 10), nil
		}
		return tr.Do(t.Context(), r, forwardtest.ChatOptions)
	}
	for _, c := range []struct{ size, status int }{{10, 200}, {16 << 20, 413}, {10, 200}} { // more than sockets hold, so the refusal comes first
		a, err := send(c.size)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status() != c.status {
			t.Errorf("%d bytes: answered %d, want %d", c.size, a.Status(), c.status)
		}
		a.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(seen, []string{"1", "2", "3", "4"}) {
		t.Errorf("the server got the signatures %q", seen)
	}
}

// A request that cannot be signed is not sent.
func TestRequestThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("the server got %q", b)
		}
	})
	failure := errors.New("no key")
	r := forwardtest.NewRequest(address)
	r.Sign = func([]byte) ([]byte, error) { return nil, failure }
	if _, err := forwardtest.NewTransport(t).Do(t.Context(), r, forwardtest.ChatOptions); !errors.Is(err, failure) {
		t.Errorf("Do = %v", err)
	}
}
