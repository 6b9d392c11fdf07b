package transport_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
)

// BenchmarkDo is one exchange with a short whole answer on a kept connection.
func BenchmarkDo(b *testing.B) {
	const size = 1500
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 23 Nov 2026 04:00:00 GMT\r\nServer: engine\r\n" +
		"X-Request-Id: 0123456789abcdef0123456789abcdef\r\nContent-Length: 1500\r\n\r\n" + `{"x":"` + strings.Repeat("a", size-8) + `"}`)
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("b", 1000) + `"}]}`)
	address := forwardtest.ListenRaw(b, func(c net.Conn) {
		buf := make([]byte, 16<<10)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	})
	tr := forwardtest.NewTransport(b)
	r := forwardtest.NewRequest(address)
	r.Body, r.Deadline = body, time.Now().Add(time.Hour)
	r.Fields = append(r.Fields, transport.Field{Name: "Accept", Value: "application/json"}, transport.Field{Name: "User-Agent", Value: "colonnade"})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		resp, err := tr.Do(ctx, r, forwardtest.ChatOptions)
		if err != nil {
			b.Fatal(err)
		}
		if got, err := resp.Next(); err != nil || len(got) != size {
			b.Fatal(len(got), err)
		}
		if _, err := resp.Next(); err != io.EOF {
			b.Fatal(err)
		}
		resp.Close()
	}
}
