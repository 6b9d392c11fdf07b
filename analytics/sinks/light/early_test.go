package light_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/light"
)

// A receiver may answer before it has read a batch. Send returns then, and nothing reads the batch any more, since its memory is used again: the
// race detector would see that.
func TestAnswerBeforeTheBody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"))
				}
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	spec, err := sinks.Parse("http://" + listener.Addr().String() + "?compression=none")
	if err != nil {
		t.Fatal(err)
	}
	sink, err := light.Open(spec, sinks.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	line := bytes.Repeat([]byte("x"), 16<<20) // more than sockets take
	for range 3 {
		b := ship.NewBatch("ams-1", "first", line)
		if err := sink.Send(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		clear(b.NDJSON())
	}
}
