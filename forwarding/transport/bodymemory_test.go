package transport_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
)

// A body is what it was for as long as it is kept, though its memory is that of an earlier one.
func TestSwappedBodiesStayApart(t *testing.T) {
	n := 0
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		for buf := make([]byte, 16<<10); ; n++ {
			if _, err := c.Read(buf); err != nil {
				return
			}
			body := strings.Repeat(string(rune('a'+n%26)), 1+(n*997)%6000)
			if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				return
			}
		}
	})
	tr := forwardtest.NewTransport(t)
	r := forwardtest.NewRequest(address)
	r.Deadline = time.Now().Add(time.Minute)
	var kept [3][]byte // as if three connections were answered in turns
	var want [3]string
	for i := range 200 {
		resp, err := tr.Do(t.Context(), r, forwardtest.ChatOptions)
		if err != nil {
			t.Fatal(err)
		}
		slot := i % len(kept)
		keep := func(body []byte) []byte {
			earlier := kept[slot]
			kept[slot] = body
			return earlier
		}
		body, _ := resp.Body()
		want[slot], kept[slot] = string(body), kept[slot][:0]
		resp.SwapBody(keep)
		resp.SwapBody(keep) // does nothing
		if len(body) > 4<<10 {
			kept[slot] = body // it was not given away
		}
		for j, text := range want {
			if string(kept[j]) != text {
				t.Fatalf("after answer %d, the body kept in %d has changed", i, j)
			}
		}
		resp.Close()
	}
	transport.NewAnswer(0, 200, []byte("{}")).SwapBody(func([]byte) []byte {
		t.Error("a body of our own was given away")
		return nil
	})
}
