package transport_test

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/forwardtest"
)

// All bytes of a server are noted: those of its head, of each piece of its answer, and of a comment before the first event.
func TestReceivedBytesAreNoted(t *testing.T) {
	next := make(chan string)
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		for text := range next {
			_, _ = c.Write([]byte(text))
		}
	})
	t.Cleanup(func() { close(next) })
	var received atomic.Bool
	r := forwardtest.NewRequest(address)
	r.Received = &received
	ctx, cancel := context.WithTimeout(t.Context(), forwardtest.Patience)
	defer cancel()
	noted := make(chan int, 1)
	go func() {
		n := 0
		defer func() { noted <- n }()
		for _, text := range []string{
			"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
			forwardtest.Chunk(": working\n\n"), forwardtest.Chunk(forwardtest.Delta("a")),
		} {
			next <- text
			for !received.Swap(false) {
				if ctx.Err() != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
			n++
		}
	}()
	a, err := forwardtest.NewTransport(t).Do(ctx, r, forwardtest.ChatOptions)
	if n := <-noted; n != 3 || err != nil {
		t.Fatalf("%d of 3 pieces were noted, error %v", n, err)
	}
	defer a.Close()
	if _, err := a.Next(); err != nil { // held since the first event
		t.Fatal(err)
	}
	for i, read := range []func(){
		func() { _, err = a.Next() },
		func() { a.Follow(func([]byte) bool { return false }) },
	} {
		received.Store(false)
		next <- forwardtest.Chunk(forwardtest.Delta("b"))
		if read(); err != nil || !received.Load() {
			t.Errorf("later piece %d: noted %v, error %v", i, received.Load(), err)
		}
	}
}
