package relay_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
)

// An open stream holds neither the buffers of its request nor that of its response. A buffer of a request has 16 KiB, and so has one of a response,
// so the bound is exceeded by either of them. The test is not parallel, since other tests would share the heap.
func TestOpenStreamHoldsNoBuffers(t *testing.T) {
	const streams, bound = 300, 20 << 10
	end := make(chan struct{})
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		var request [1 << 10]byte
		if _, err := c.Read(request[:]); err == nil {
			_, _ = io.WriteString(c, forwardtest.StreamHead+forwardtest.Chunk(forwardtest.Delta("a")))
			<-end
		}
	})
	transport := forwardtest.NewTransport(t)
	s := forwardtest.Serve(t, func(rc *fasthttp.RequestCtx) {
		answer, err := transport.Do(context.Background(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
		if err != nil {
			t.Error(err)
			return
		}
		relay.WriteRest(rc, &relay.Relay{
			Context: context.Background(), Response: answer, Client: rc.Conn(), OnOutcome: func(relay.Outcome) {}, OnClose: func() {},
		})
	})
	open := func(n int) {
		for range n {
			c, err := net.Dial("tcp", s.Address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n\r\n")
			var first [512]byte
			if _, err := c.Read(first[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(1)
	before := heapBytes()
	open(streams)
	if each := (heapBytes() - before) / streams; each > bound {
		t.Errorf("each open stream holds %d bytes, want at most %d", each, bound)
	}
	close(end)
	s.Stop(server.DrainTimings{})
}

// heapBytes returns the live bytes of the heap.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // what a sync.Pool holds survives one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
