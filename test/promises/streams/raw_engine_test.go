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
	"colonnade/internal/wiretest"
)

// rawEngine is an engine that writes any bytes while it is hostile, and good responses else.
type rawEngine struct {
	url      string
	hostile  atomic.Bool
	response rawResponse
	asked    atomic.Int64 // requests while it was hostile
	misused  atomic.Int64 // requests on a connection after a hostile response
}

// rawResponse writes a response to a plain or streamed request.
type rawResponse struct {
	early    bool // before it has read the body
	reusable bool // the connection serves further requests
	write    func(c *rawConn, stream bool)
}

// rawConn is the engine's end of a connection.
type rawConn struct {
	*net.TCPConn
	br *bufio.Reader
}

func startRawEngine(t testing.TB, response rawResponse) *rawEngine {
	t.Helper()
	e := &rawEngine{response: response}
	e.url = "http://" + testkit.Serve(t, func(c net.Conn) {
		e.serve(&rawConn{TCPConn: c.(*net.TCPConn), br: bufio.NewReader(c)})
	})
	return e
}

// serve answers requests up to the first hostile response, after which there must be none.
func (e *rawEngine) serve(c *rawConn) {
	for {
		_ = c.SetDeadline(time.Now().Add(4 * testkit.Timeout))
		r, err := http.ReadRequest(c.br)
		if err != nil {
			return
		}
		hostile := r.Method == http.MethodPost && e.hostile.Load()
		var body []byte
		if !hostile || !e.response.early {
			if body, err = io.ReadAll(r.Body); err != nil {
				return
			}
		}
		stream := strings.Contains(string(body), `"stream":true`)
		if !hostile {
			c.say(goodResponse(r.Method == http.MethodPost, stream))
			continue
		}
		e.asked.Add(1)
		e.response.write(c, stream)
		if e.response.early {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		if e.response.reusable {
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

// goodResponse is the response of an engine that is not hostile.
func goodResponse(post, stream bool) string {
	switch {
	case !post: // its health path
		return wiretest.EncodeResponse("200 OK", "")
	case stream:
		return rawStream + rawChunk(rawEvent("good")) + rawChunk("data: [DONE]\n\n") + "0\r\n\r\n"
	}
	return wiretest.EncodeResponse("200 OK", `{"said":"good"}`, typeJSON)
}

const rawStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func rawChunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func rawEvent(content string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", content)
}

// writing writes a text and keeps the connection open.
func writing(text string) rawResponse {
	return rawResponse{write: func(c *rawConn, _ bool) { c.say(text) }}
}

// framed is a response with correct framing.
func framed(status, body string, lines ...string) rawResponse {
	text := wiretest.EncodeResponse(status, body, lines...)
	return rawResponse{reusable: true, write: func(c *rawConn, _ bool) { c.say(text) }}
}

// then writes the response and does something to the connection.
func (a rawResponse) then(do func(*rawConn)) rawResponse {
	return rawResponse{write: func(c *rawConn, stream bool) {
		a.write(c, stream)
		do(c)
	}}
}

// either writes one text to a plain request and another to a streamed one.
func either(plain, streamed string) rawResponse {
	return rawResponse{write: func(c *rawConn, stream bool) {
		if stream {
			c.say(streamed)
			return
		}
		c.say(plain)
	}}
}

// repeating writes a text again and again until the connection ends.
func repeating(text string, every time.Duration) func(*rawConn) {
	return func(c *rawConn) {
		for c.say(text) {
			time.Sleep(every)
		}
	}
}

func closes(c *rawConn) { _ = c.Close() }

func halfCloses(c *rawConn) { _ = c.CloseWrite() }

// resets waits until the response has been read, which a reset would discard.
func resets(c *rawConn) {
	if err := awaitAcknowledged(c); err != nil {
		return
	}
	time.Sleep(100 * time.Millisecond) // what was acknowledged is yet to be read
	_ = c.SetLinger(0)
	_ = c.Close()
}
