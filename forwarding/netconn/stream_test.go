package netconn_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/link"
	"colonnade/forwarding/netconn"
	"colonnade/internal/testkit"
)

const streamPatience = 20 * time.Second

// streamPair returns a connection over a stream that serve answers, once Ask has opened it. Its link writes what TryWriters leave when flush is called.
func streamPair(t *testing.T, serve func(*link.Stream)) (c *netconn.Conn, flush func()) {
	t.Helper()
	near, far := testkit.TCPPair(t)
	flusher := new(link.Flusher)
	client := netconn.NewLink(netconn.New(netconn.NewSocket(near), nil), nil, nil, flusher)
	handled := make(chan struct{})
	server := netconn.NewLink(netconn.New(netconn.NewSocket(far), nil), func(s *link.Stream) {
		go func() {
			defer close(handled)
			defer s.Close()
			serve(s)
		}()
	}, nil, flusher)
	go func() { _ = client.Run() }()
	go func() { _ = server.Run() }()
	c = netconn.NewOverStream(client.NewStream())
	c.Deadline = time.Now().Add(streamPatience)
	t.Cleanup(func() {
		c.Close()
		_, _ = client.Close(), server.Close()
		<-client.Done()
		<-server.Done()
		<-handled
	})
	return c, flusher.Flush
}

// askStream sends a request of one byte, and waits for the answer.
func askStream(t *testing.T, c *netconn.Conn) {
	t.Helper()
	sent := false
	if n, err := c.Ask([]byte("?"), false, func() { sent = true }); n != 1 || err != nil || !sent {
		t.Fatalf("sent %d bytes, %v, called sent: %v", n, err, sent)
	}
}

func TestAskOverAStream(t *testing.T) {
	c, _ := streamPair(t, func(s *link.Stream) {
		request, _ := io.ReadAll(s)
		_, _ = s.Write(append(request, "!"...))
	})
	askStream(t, c)
	if got, err := io.ReadAll(c); string(got) != "?!" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestFollowOverAStream compares the two ways to follow a stream.
func TestFollowOverAStream(t *testing.T) {
	for what, follow := range map[string]func(*netconn.Conn, func() bool){
		"Poll":       (*netconn.Conn).Poll,
		"PollShared": func(c *netconn.Conn, step func() bool) { c.PollShared(1, step) },
	} {
		next := make(chan struct{})
		c, _ := streamPair(t, func(s *link.Stream) {
			for range 5 {
				_, _ = io.WriteString(s, "piece ")
				<-next
			}
		})
		askStream(t, c)
		var got strings.Builder
		buf := make([]byte, 100)
		var end error
		follow(c, func() bool {
			for {
				n, err := c.Read(buf)
				got.Write(buf[:n])
				if errors.Is(err, netconn.ErrWouldBlock) {
					return true
				}
				if err != nil {
					end = err
					return false
				}
				next <- struct{}{}
			}
		})
		if got.String() != strings.Repeat("piece ", 5) || !errors.Is(end, io.EOF) {
			t.Errorf("%s: read %q, %v", what, got.String(), end)
		}
	}
}

func TestFollowOverAStreamEnds(t *testing.T) {
	wait := func(s *link.Stream) {
		_, _ = io.ReadAll(s)
		_, _ = io.WriteString(s, "x")
		s.OnReset(func(error) {})
		time.Sleep(100 * time.Millisecond)
	}
	nothing := func() bool { return true }
	for what, follow := range map[string]func(*netconn.Conn, func() bool){
		"Poll":       (*netconn.Conn).Poll,
		"PollShared": func(c *netconn.Conn, step func() bool) { c.PollShared(1, step) },
	} {
		c, _ := streamPair(t, wait)
		askStream(t, c)
		_, _ = c.Read(make([]byte, 1))
		c.IdleTimeout = 20 * time.Millisecond
		follow(c, nothing)
		if _, err := c.Read(make([]byte, 1)); !netconn.IsTimeout(err) {
			t.Errorf("%s after IdleTimeout: %v", what, err)
		}
		c, _ = streamPair(t, wait)
		askStream(t, c)
		_, _ = c.Read(make([]byte, 1))
		time.AfterFunc(20*time.Millisecond, c.Cancel)
		follow(c, nothing)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, netconn.ErrCancelled) {
			t.Errorf("%s after Cancel: %v", what, err)
		}
	}
}

// TestPanicOfASharedStep shows that the goroutine that follows gets the panic, and the reader of the link goes on.
func TestPanicOfASharedStep(t *testing.T) {
	next := make(chan struct{})
	c, _ := streamPair(t, func(s *link.Stream) {
		_, _ = io.WriteString(s, "x")
		<-next
		_, _ = io.WriteString(s, "y")
		<-next
	})
	askStream(t, c)
	steps := 0
	func() {
		defer func() {
			if v := recover(); v == nil || !strings.Contains(v.(string), "on purpose") {
				t.Errorf("recovered %v", v)
			}
		}()
		c.PollShared(1, func() bool {
			if steps++; steps == 2 {
				panic("on purpose")
			}
			_, _ = c.Read(make([]byte, 10))
			go func() { next <- struct{}{} }()
			return true
		})
	}()
	close(next)
	if got, err := io.ReadAll(c); string(got) != "y" || err != nil {
		t.Errorf("afterwards: read %q, %v", got, err)
	}
}

func TestTryWriterOverAStream(t *testing.T) {
	written, read := make(chan struct{}), make(chan struct{})
	c, flush := streamPair(t, func(s *link.Stream) {
		w := netconn.NewStreamTryWriter(s)
		if n, err := w.Write([]byte("later")); n != 5 || err != nil {
			t.Error(n, err)
		}
		close(written)
		<-read
	})
	go func() {
		<-written
		flush()
	}()
	askStream(t, c)
	if got := make([]byte, 5); func() error { _, err := io.ReadFull(c, got); return err }() != nil || string(got) != "later" {
		t.Errorf("read %q", got)
	}
	close(read)
}
