package cost

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// enginePorts is how many addresses the engine has: an endpoint of Colonnade, which is a URL, has at most 10 000 slots.
const enginePorts = 5

// answers are the prepared bytes of an engine.
type answers struct{ plain, models, streamHead, chunk, streamEnd []byte }

func newAnswers() *answers {
	whole := func(body string) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	event := `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
	const done = "data: [DONE]\n\n"
	return &answers{
		plain: whole(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` +
			strings.Repeat("word ", 280) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":280,"total_tokens":290}}`),
		models:     whole(`{"data":[{"id":"m"}]}`),
		streamHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"),
		chunk:      fmt.Appendf(nil, "%x\r\n%s\r\n", len(event), event),
		streamEnd:  fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(done), done),
	}
}

// serveEngine answers at once with 1.5 KB, with a stream of the shape that the prompt asks for, or with what it reads on a WebSocket.
func serveEngine(listeners []net.Listener) error {
	a, failed := newAnswers(), make(chan error)
	for _, ln := range listeners {
		go func() { // ends with the process
			for {
				c, err := ln.Accept()
				if err != nil {
					failed <- err
					return
				}
				go func() {
					defer c.Close()
					_ = a.serve(c) // the client has left, or speaks no HTTP
				}()
			}
		}()
	}
	return <-failed
}

func (a *answers) serve(c net.Conn) error {
	in, body := bufio.NewReaderSize(c, 4<<10), make([]byte, 0, 2<<10)
	for {
		h, err := readHead(in)
		if err != nil {
			return err
		}
		if h.chunked {
			return errors.New("a request without a length")
		}
		if h.key != "" {
			return echo(c, in, h.key)
		}
		body = append(body[:0], make([]byte, max(0, h.length))...)
		if _, err := io.ReadFull(in, body); err != nil {
			return err
		}
		if err := a.answer(c, h, body); err != nil {
			return err
		}
	}
}

func (a *answers) answer(c net.Conn, h head, body []byte) error {
	text := a.plain
	if strings.HasPrefix(h.first, "GET") {
		text = a.models
	} else if shape, streamed := shapeIn(body); streamed {
		return a.stream(c, shape)
	}
	_, err := c.Write(text)
	return err
}

func (a *answers) stream(c net.Conn, s streamShape) error {
	if _, err := c.Write(a.streamHead); err != nil {
		return err
	}
	gap := time.Duration(s.gapMillis) * time.Millisecond
	for range s.chunks {
		if _, err := c.Write(a.chunk); err != nil {
			return err
		}
		time.Sleep(gap) // a late chunk does not make the next one early: two chunks that travel together cost less
	}
	_, err := c.Write(a.streamEnd)
	return err
}

// echo accepts a handshake, and answers a ping with a pong, a close with a close and the end, and a message with itself.
func echo(c net.Conn, in *bufio.Reader, key string) error {
	_, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
		acceptKey(key)+"\r\n\r\n")
	if err != nil {
		return err
	}
	var out []byte
	buffer := make([]byte, longestFrame)
	for {
		f, err := readFrame(in, buffer)
		if err != nil {
			return err
		}
		switch f.first {
		case pongFrame:
			continue
		case pingFrame:
			f.first = pongFrame
		}
		out = f.appendTo(out[:0], false)
		if _, err := c.Write(out); err != nil || f.first == closeFrame {
			return err
		}
	}
}
