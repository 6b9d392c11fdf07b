package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/lazyctx"
	"colonnade/internal/testkit"
)

// testWatch is a watch over the client of one request.
type testWatch struct {
	w    *clientWatcher
	conn *watchedConn
}

func (t testWatch) stop()        { t.w.stop(t.conn) }
func (t testWatch) ignoreInput() { t.w.ignoreInput(t.conn) }

func connOf(w *clientWatcher, c *net.TCPConn) *watchedConn {
	return &watchedConn{socket: socket{watcher: w, tcp: c}}
}

func watchConn(t testing.TB, c *watchedConn) (context.Context, testWatch) {
	t.Helper()
	ctx := new(lazyctx.Context)
	if err := c.watcher.watch(c, ctx); err != nil {
		t.Fatal(err)
	}
	return ctx, testWatch{c.watcher, c}
}

func newWatcher(t testing.TB) *clientWatcher {
	t.Helper()
	w, err := newClientWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.close() })
	return w
}

// newInflight returns a set that is closed at the end of the test.
func newInflight(t testing.TB) *Inflight {
	t.Helper()
	f, err := NewInflight(slog.New(slog.DiscardHandler), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestWatcherFindsClientsLeave(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn){
		"close":      func(c *net.TCPConn) { c.Close() },
		"reset":      func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
		"half-close": func(c *net.TCPConn) { _ = c.CloseWrite() },
		"close behind a pipelined request": func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\n\r\n")
			c.Close()
		},
		"close behind more than the socket takes": func(c *net.TCPConn) {
			fill(t, c)
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "pipelined") {
				testkit.NeedsLinux(t, "shows the close of a connection before what arrived is read")
			}
			w := newWatcher(t)
			client, srv := testkit.TCPPair(t)
			ctx, watch := watchConn(t, connOf(w, srv))
			defer watch.stop()
			if ctx.Err() != nil {
				t.Fatal("gone before it left")
			}
			leave(client)
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Second):
				t.Fatal("not noticed")
			}
			if cause := context.Cause(ctx); !errors.Is(cause, ErrClientGone) {
				t.Errorf("cause %v", cause)
			}
		})
	}
}

func TestWatcherLeavesTheConnectionAlone(t *testing.T) {
	w := newWatcher(t)
	client, conn := testkit.TCPPair(t)
	watched := connOf(w, conn)
	for range 3 { // requests of one connection
		ctx, watch := watchConn(t, watched)
		if _, err := io.WriteString(client, "hello"); err != nil {
			t.Fatal(err)
		}
		var b [5]byte
		if _, err := io.ReadFull(conn, b[:]); err != nil || string(b[:]) != "hello" {
			t.Fatalf("read %q, %v", b, err)
		}
		watch.stop()
		watch.stop()
		if ctx.Err() != nil {
			t.Fatal("counted as gone")
		}
	}
	ctx, watch := watchConn(t, watched)
	watch.stop()
	client.Close()
	time.Sleep(20 * time.Millisecond)
	if ctx.Err() != nil {
		t.Error("a stopped watch has cancelled its request")
	}
}

// A client that sends its next request early stays, also if that has nearly maxUnread bytes in small pieces.
func TestWatcherKeepsPipeliningClients(t *testing.T) {
	w := newWatcher(t)
	for _, piece := range []int{1000, maxUnread - 1000} {
		client, conn := testkit.TCPPair(t)
		ctx, watch := watchConn(t, connOf(w, conn))
		for sent := 0; sent+piece < maxUnread; sent += piece {
			if _, err := client.Write(make([]byte, piece)); err != nil {
				t.Fatal(err)
			}
		}
		testkit.WaitFor(t, "the bytes to arrive", func() bool { return unread(t, conn) >= maxUnread-2*1000 })
		time.Sleep(10 * time.Millisecond)
		if ctx.Err() != nil {
			t.Errorf("in pieces of %d bytes: gone", piece)
		}
		watch.stop()
	}
}

// The client of a session may send any number of bytes, since they are read.
func TestWatcherIgnoresInputOfSessions(t *testing.T) {
	w := newWatcher(t)
	client, conn := testkit.TCPPair(t)
	ctx, watch := watchConn(t, connOf(w, conn))
	watch.ignoreInput()
	fill(t, client)
	if ctx.Err() != nil {
		t.Error("gone")
	}
	if _, err := io.CopyN(io.Discard, conn, maxUnread); err != nil {
		t.Fatal(err)
	}
	client.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	<-ctx.Done()
	watch.stop()
}

// fill sends until nothing more is accepted.
func fill(t testing.TB, c *net.TCPConn) {
	t.Helper()
	piece, sent := make([]byte, maxUnread), 0
	for {
		_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		n, err := c.Write(piece)
		sent += n
		if sent > 2*maxUnread && err != nil {
			return
		}
	}
}

func unread(t testing.TB, c *net.TCPConn) (n int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		n, _, _ = syscall.Recvfrom(int(fd), make([]byte, 2*maxUnread), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return n
}

// The kernel uses descriptors again at once: a watch must not cancel another request.
func TestWatcherManyConnections(t *testing.T) {
	w := newWatcher(t)
	for range 300 {
		goes, watchedGone := testkit.TCPPair(t)
		stays, watchedStaying := testkit.TCPPair(t)
		gone, watch1 := watchConn(t, connOf(w, watchedGone))
		staying, watch2 := watchConn(t, connOf(w, watchedStaying))
		goes.Close()
		<-gone.Done()
		if staying.Err() != nil {
			t.Fatal("the wrong client counted as gone")
		}
		watch1.stop()
		watch2.stop()
		w.forget(watch1.conn)
		w.forget(watch2.conn)
		watchedGone.Close()
		stays.Close()
		watchedStaying.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.conns); n != 0 {
		t.Errorf("%d connections are left over", n)
	}
}

func BenchmarkWatch(b *testing.B) {
	w := newWatcher(b)
	_, conn := testkit.TCPPair(b)
	watched := connOf(w, conn)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.watch(watched, new(lazyctx.Context)); err != nil {
			b.Fatal(err)
		}
		w.stop(watched)
	}
}
