package netconn_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/netconn"
)

// answering reads a request of n bytes, and sends an answer.
func answering(far *net.TCPConn, n int, answer string) {
	if _, err := io.CopyN(io.Discard, far, int64(n)); err == nil {
		_, _ = io.WriteString(far, answer)
	}
}

// ask calls Ask, and reports also how often the memory of the request was given back.
func ask(c *netconn.Conn, request string, quiet bool) (sent, released int, err error) {
	sent, err = c.Ask([]byte(request), quiet, func() { released++ })
	return sent, released, err
}

// Ask sends the request once, and the answer is there to be read.
func TestAsk(t *testing.T) {
	t.Parallel()
	c, far := newConn(t)
	buf := make([]byte, 100)
	for _, size := range []int{1, 1000, 1, 8 << 20} { // more than the sockets take
		go answering(far, size, "answer")
		if sent, released, err := ask(c, strings.Repeat("r", size), true); sent != size || released != 1 || err != nil {
			t.Fatalf("%d of %d bytes, released %d times, %v", sent, size, released, err)
		}
		if n, err := c.Read(buf); err != nil || string(buf[:n]) != "answer" {
			t.Fatalf("%d bytes: %q, %v", size, buf[:n], err)
		}
	}
	go func() {
		time.Sleep(time.Millisecond) // most often, the read below waits by then; both orders are right
		_, _ = io.WriteString(far, "more")
	}()
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "more" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	far.Close()
	if n, err := c.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d, %v", n, err)
	}
}

// A quiet request is not sent where something has arrived before, or the end.
func TestAskIsQuiet(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*net.TCPConn) error{
		"bytes": func(c *net.TCPConn) error { _, err := io.WriteString(c, "x"); return err },
		"end":   (*net.TCPConn).CloseWrite,
		"reset": func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		c, far := newConn(t)
		if err := end(far); err != nil {
			t.Fatal(err)
		}
		awaitUnread(t, c)
		if sent, released, err := ask(c, "request", true); sent != 0 || released != 0 || !errors.Is(err, netconn.ErrUnread) {
			t.Errorf("%s: %d bytes, released %d times, %v", name, sent, released, err)
		}
		if name != "bytes" {
			continue
		}
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("the bytes are left: %d, %v", n, err)
		}
		c.Close()
		if got, err := io.ReadAll(far); len(got) > 0 || err != nil {
			t.Errorf("the request was sent after all: %q, %v", got, err)
		}
	}
}

func awaitUnread(t *testing.T, c *netconn.Conn) {
	t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(100 * time.Microsecond) {
		if unread, err := c.Unread(); len(unread) > 0 || err != nil {
			return
		}
	}
	t.Fatal("nothing has arrived")
}

// A request that is cancelled or late before it was sent is not sent; one that waits for its answer ends.
func TestAskEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		before bool
		end    func(*netconn.Conn)
		want   error
	}{
		"cancelled before": {true, (*netconn.Conn).Cancel, netconn.ErrCancelled},
		"late before":      {true, func(c *netconn.Conn) { c.Deadline = netconn.PastDeadline() }, os.ErrDeadlineExceeded},
		"cancelled":        {false, (*netconn.Conn).Cancel, os.ErrDeadlineExceeded},
		"late":             {false, nil, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, far := newConn(t)
			c.IdleTimeout = patience
			sent := 7
			switch {
			case end.before:
				end.end(c)
				sent = 0
			case end.end == nil:
				c.IdleTimeout = 200 * time.Millisecond
			default:
				go func() {
					_, _ = io.ReadFull(far, make([]byte, 7))
					end.end(c)
				}()
			}
			if n, released, err := ask(c, "request", true); n != sent || released != min(n, 1) || !errors.Is(err, end.want) {
				t.Errorf("%d bytes, released %d times, %v", n, released, err)
			}
			c.Close()
			if got, _ := io.ReadAll(far); sent == 0 && len(got) > 0 {
				t.Errorf("%q was sent", got)
			}
		})
	}
}

// A request to a connection that the server has closed fails, if not when it is sent, then with the read after it.
func TestAskOfAClosedConnection(t *testing.T) {
	t.Parallel()
	c, far := newConn(t)
	far.Close()
	awaitUnread(t, c)
	_, _, _ = ask(c, "request", false)
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) && !netconn.IsRefused(err) {
		t.Errorf("%d, %v", n, err)
	}
}

// Ask does not wait behind bytes that a server has sent before the first request of a connection: nothing may follow them.
func TestAskOfAServerThatSpeaksFirst(t *testing.T) {
	t.Parallel()
	c, far := newConn(t)
	_, _ = io.WriteString(far, "refused")
	awaitUnread(t, c)
	time.Sleep(10 * time.Millisecond) // most often, the runtime has noticed the arrival by then; it is right either way
	c.IdleTimeout = patience
	if n, _, err := ask(c, "request", false); n != 7 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	buf := make([]byte, 100)
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "refused" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}
