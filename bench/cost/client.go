package cost

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strings"
	"time"
)

// answerTimeout is how long a client waits for an answer, or for a chunk of one.
const answerTimeout = 30 * time.Second

// conn is a client's connection.
type conn struct {
	net.Conn
	in *bufio.Reader
}

func dial(address string) (*conn, error) {
	c, err := net.DialTimeout("tcp", address, answerTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 2<<10)}, nil
}

// send sends a request and returns the head of the answer, which has the status 200.
func (c *conn) send(request []byte) (head, error) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return head{}, err
	}
	if _, err := c.Write(request); err != nil {
		return head{}, err
	}
	h, err := readHead(c.in)
	if err != nil {
		return h, err
	}
	if _, status, _ := strings.Cut(h.first, " "); !strings.HasPrefix(status, "200") {
		text := make([]byte, min(300, max(0, h.length)))
		_, _ = io.ReadFull(c.in, text)
		return h, fmt.Errorf("answer %q %s", h.first, text)
	}
	return h, nil
}

// ask sends a plain request and reads the answer.
func (c *conn) ask(request []byte) error {
	h, err := c.send(request)
	switch {
	case err != nil:
		return err
	case h.chunked:
		err = c.finish(httputil.NewChunkedReader(c.in))
	case h.length < 0:
		return errors.New("an answer without a length")
	default:
		_, err = c.in.Discard(h.length)
	}
	return err
}

// readStream sends a streamed request and reads the answer to its end. It calls each for each chunk.
func (c *conn) readStream(request []byte, each func()) error {
	h, err := c.send(request)
	if err != nil {
		return err
	}
	if !h.chunked {
		return errors.New("a stream that is not chunked")
	}
	lines, deadline := bufio.NewReaderSize(httputil.NewChunkedReader(c.in), 1<<10), time.Now()
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("the stream was cut: %w", err)
		}
		switch {
		case bytes.HasPrefix(line, []byte("data: {\"id\"")):
			each()
		case bytes.HasPrefix(line, []byte("data: [DONE]")):
			return c.finish(lines)
		case bytes.HasPrefix(line, []byte("data:")):
			return fmt.Errorf("the stream says %q", line)
		}
		if now := time.Now(); now.Sub(deadline) > time.Second {
			deadline = now
			if err := c.SetDeadline(now.Add(answerTimeout)); err != nil {
				return err
			}
		}
	}
}

// finish reads the rest of a chunked body, and the empty line after it.
func (c *conn) finish(body io.Reader) error {
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	_, err := c.in.Discard(len("\r\n"))
	return err
}

// openSocket opens a realtime session.
func openSocket(address, key string) (*conn, error) {
	c, err := dial(address)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(c, "GET /v1/realtime?model=echo HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Authorization: Bearer "+key+"\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err == nil {
		var h head
		if h, err = readHead(c.in); err == nil && !strings.Contains(h.first, " 101") {
			err = fmt.Errorf("the handshake was answered with %q", h.first)
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// exchange sends a masked message and reads its echo.
func (c *conn) exchange(message []byte) error {
	if _, err := c.Write(message); err != nil {
		return err
	}
	var buffer [longestFrame]byte
	for {
		f, err := readFrame(c.in, buffer[:])
		if err != nil {
			return err
		}
		if f.first != pingFrame {
			return nil
		}
		f.first = pongFrame
		if _, err := c.Write(f.appendTo(nil, true)); err != nil {
			return err
		}
	}
}
