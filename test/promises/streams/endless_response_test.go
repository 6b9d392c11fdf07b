package streams_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// flooding is a response with a head and then as many bytes as are read, up to 100 MiB.
func flooding(head string) rawResponse {
	piece := strings.Repeat(evil+" ", 64<<10/len(evil+" "))
	return rawResponse{write: func(c *rawConn, _ bool) {
		c.say(head)
		for sent := 0; sent < 100<<20 && c.say(piece); {
			sent += len(piece)
		}
	}}
}

// However many bytes engines send that no client gets, in any part of a response, they are discarded as they come.
func TestDiscardedBytesTakeNoMemory(t *testing.T) {
	long := "Content-Length: 104857600\r\n\r\n"
	misuse := ending{status: 400, number: 40001}
	floods := []struct {
		response rawResponse
		want     ending
	}{
		{flooding("HTTP/1.1 500 Oh\r\nContent-Type: text/html\r\n" + long), badStatus},
		{flooding("HTTP/1.1 500 Oh\r\nContent-Type: text/event-stream\r\n\r\n"), badStatus},
		{flooding("HTTP/1.1 400 No\r\nContent-Type: application/json\r\n" + long + `{"error":{"message":"`), misuse},
		{flooding("HTTP/1.1 404 No\r\n" + long), misconfigured},
		{flooding("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + long), misconfigured},
		{flooding("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: br\r\n" + long), misconfigured},
		{flooding("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-A: "), noAnswer},
		{flooding("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"), noAnswer},
	}
	engines := make([]*rawEngine, len(floods))
	for i, flood := range floods {
		engines[i] = startRawEngine(t, flood.response)
		engines[i].hostile.Store(true)
	}
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}}, rawDocuments(engines))
	f.Watch(8 + 4*len(engines))
	before := fleettest.LiveBytes()
	stop, peak := make(chan struct{}), make(chan int64, 1)
	go func() {
		most := int64(0)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, int64(m.HeapInuse+m.StackInuse))
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	var all sync.WaitGroup
	for i, flood := range floods {
		for n := range 2 {
			all.Go(func() {
				w := wiretest.Dial(t, f.Entry.Address)
				defer w.Close()
				w.Post("/v1/chat/completions", fmt.Sprintf(`{"model":"raw%d","stream":%v,"messages":[]}`, i, n%2 == 0))
				a := w.Read()
				if a.Status != flood.want.status || a.Err != nil || strings.Contains(a.Body, evil) {
					t.Errorf("flood %d: %d %v %.300q", i, a.Status, a.Err, a.Body)
					return
				}
				if e := a.APIError(t); e.Number != flood.want.number || e.Reason != flood.want.reason {
					t.Errorf("flood %d: %+v", i, e)
				}
			})
		}
	}
	all.Wait()
	close(stop)
	if grown := <-peak - before; grown > 64<<20 {
		t.Errorf("memory has grown by %d MiB under %d responses that no client gets", grown>>20, 2*len(floods))
	}
}
