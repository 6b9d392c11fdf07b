package streams_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// rawEngine is an engine that writes bytes: what no HTTP library would write, while it is hostile.
type rawEngine struct {
	url     string
	hostile atomic.Bool
	says    rawAnswer
	asked   atomic.Int64 // requests while it was hostile
	misused atomic.Int64 // requests on a connection that was not fit for them any more
}

// rawAnswer writes an answer in answer to a request for a stream or for none.
type rawAnswer struct {
	early bool // before it has read the body
	fit   bool // the connection may serve on
	write func(c *rawConn, stream bool)
}

// rawConn is an engine's end of a connection.
type rawConn struct {
	*net.TCPConn
	br *bufio.Reader
}

func startRawEngine(t testing.TB, says rawAnswer) *rawEngine {
	t.Helper()
	e := &rawEngine{says: says}
	e.url = "http://" + testkit.Serve(t, func(c net.Conn) {
		e.serve(&rawConn{TCPConn: c.(*net.TCPConn), br: bufio.NewReader(c)})
	})
	return e
}

// serve answers requests until one was answered in a hostile way. From then on there must be none.
func (e *rawEngine) serve(c *rawConn) {
	for {
		_ = c.SetDeadline(time.Now().Add(4 * testkit.Timeout))
		r, err := http.ReadRequest(c.br)
		if err != nil {
			return
		}
		hostile := r.Method == http.MethodPost && e.hostile.Load()
		var body []byte
		if !hostile || !e.says.early {
			if body, err = io.ReadAll(r.Body); err != nil {
				return
			}
		}
		stream := strings.Contains(string(body), `"stream":true`)
		if !hostile {
			c.say(wellAnswer(r.Method == http.MethodPost, stream))
			continue
		}
		e.asked.Add(1)
		e.says.write(c, stream)
		if e.says.early {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		if e.says.fit {
			continue
		}
		if _, err := http.ReadRequest(c.br); err == nil {
			e.misused.Add(1)
		}
		return
	}
}

func (c *rawConn) say(text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

// wellAnswer is what a request gets from an engine that behaves.
func wellAnswer(post, stream bool) string {
	switch {
	case !post: // its health path
		return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	case stream:
		return rawStream + rawChunk(rawEvent("well")) + rawChunk("data: [DONE]\n\n") + "0\r\n\r\n"
	}
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"said\":\"well\"}"
}

const rawStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func rawChunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func rawEvent(content string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", content)
}

// saying writes a text and holds the connection.
func saying(text string) rawAnswer {
	return rawAnswer{write: func(c *rawConn, _ bool) { c.say(text) }}
}

// framed is an answer that is in order, whatever it says.
func framed(text string) rawAnswer {
	return rawAnswer{fit: true, write: func(c *rawConn, _ bool) { c.say(text) }}
}

// then says a text and does something to the connection.
func (a rawAnswer) then(do func(*rawConn)) rawAnswer {
	return rawAnswer{write: func(c *rawConn, stream bool) {
		a.write(c, stream)
		do(c)
	}}
}

// either says one text to who wants a stream and another to who does not.
func either(plain, streamed string) rawAnswer {
	return rawAnswer{write: func(c *rawConn, stream bool) {
		if stream {
			c.say(streamed)
			return
		}
		c.say(plain)
	}}
}

// again says a text for ever, so often.
func again(text string, every time.Duration) func(*rawConn) {
	return func(c *rawConn) {
		for c.say(text) {
			time.Sleep(every)
		}
	}
}

func closes(c *rawConn) { _ = c.Close() }

func halfCloses(c *rawConn) { _ = c.CloseWrite() }

// resets waits until what was said has been read, which a reset would throw away.
func resets(c *rawConn) {
	time.Sleep(500 * time.Millisecond)
	_ = c.SetLinger(0)
	_ = c.Close()
}
