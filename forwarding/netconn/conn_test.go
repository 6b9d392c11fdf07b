package netconn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/internal/testkit"
)

// patience bounds each wait of a test. No assertion depends on it.
const patience = 30 * time.Second

// pair returns the two ends of a loopback connection, of which the far one has a deadline.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	near, far = testkit.TCPPair(t)
	_ = far.SetDeadline(time.Now().Add(patience))
	return near, far
}

func newConn(t *testing.T) (near *netconn.Conn, far *net.TCPConn) {
	t.Helper()
	tcp, far := pair(t)
	return netconn.New(netconn.NewSocket(tcp), nil), far
}

// read reads a byte, and returns the time that took.
func read(c net.Conn) (took time.Duration, err error) {
	began := time.Now()
	_, err = c.Read(make([]byte, 1))
	return time.Since(began), err
}

// Each read has the whole idle timeout, and all reads together the deadline.
func TestReadDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := netconn.Wrap(near, nil, nil)
		c.IdleTimeout = time.Second
		go func() {
			for range 4 {
				time.Sleep(900 * time.Millisecond)
				_, _ = far.Write([]byte("x"))
			}
		}()
		for range 4 {
			if took, err := read(c); err != nil || took != 900*time.Millisecond {
				t.Errorf("a slow stream: %v after %v", err, took)
			}
		}
		if took, err := read(c); !errors.Is(err, os.ErrDeadlineExceeded) || took != c.IdleTimeout {
			t.Errorf("idle: %v after %v", err, took)
		}
		c.Deadline = time.Now().Add(500 * time.Millisecond)
		if took, err := read(c); !errors.Is(err, os.ErrDeadlineExceeded) || took != 500*time.Millisecond {
			t.Errorf("deadline: %v after %v", err, took)
		}
		c.Deadline, c.IdleTimeout = time.Time{}, 0
		go func() {
			time.Sleep(time.Hour)
			_, _ = far.Write([]byte("x"))
		}()
		if took, err := read(c); err != nil || took != time.Hour {
			t.Errorf("without limits: %v after %v", err, took)
		}
	})
}

// Bytes that were read ahead come first.
func TestReadAhead(t *testing.T) {
	c, far := newConn(t)
	c.ReadAhead = []byte("hello, ")
	_, _ = far.Write([]byte("world"))
	far.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello, world" {
		t.Errorf("%q, %v", got, err)
	}
}

// Tick is called while a read waits, and moves neither its deadline nor its data.
func TestTick(t *testing.T) {
	c, far := newConn(t)
	ticks := 0
	c.Tick = func() time.Duration {
		if ticks++; ticks == 5 {
			_, _ = far.Write([]byte("x"))
		}
		return time.Millisecond
	}
	if _, err := read(c); err != nil || ticks < 5 {
		t.Errorf("%d ticks, %v", ticks, err)
	}
	c.IdleTimeout = 50 * time.Millisecond
	if took, err := read(c); !errors.Is(err, os.ErrDeadlineExceeded) || took < c.IdleTimeout {
		t.Errorf("%v after %v", err, took)
	}
}

// Cancel ends a read and a write that block, and all that follow.
func TestCancel(t *testing.T) {
	for name, f := range map[string]func(*netconn.Conn) error{
		"read": func(c *netconn.Conn) error { _, err := read(c); return err },
		"write": func(c *netconn.Conn) error {
			_, err := c.WriteWithin(make([]byte, 64<<20), patience, time.Time{})
			return err
		},
	} {
		c, _ := newConn(t)
		time.AfterFunc(50*time.Millisecond, c.Cancel)
		if err := f(c); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, netconn.ErrCancelled) {
			t.Errorf("%s: %v", name, err)
		}
		if err := f(c); !errors.Is(err, netconn.ErrCancelled) {
			t.Errorf("%s after Cancel: %v", name, err)
		}
	}
}

// A write may take any time while it makes progress, and none beyond its limit.
func TestWriteWithin(t *testing.T) {
	c, far := newConn(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	received := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(far)
		received <- all
	}()
	if n, err := c.WriteWithin(sent, patience, time.Time{}); n != len(sent) || err != nil {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	c.Close()
	if got := <-received; !bytes.Equal(got, sent) {
		t.Errorf("received %d bytes", len(got))
	}
	c, _ = newConn(t)
	for _, limit := range []time.Time{{}, time.Now().Add(20 * time.Millisecond)} {
		stall := 50 * time.Millisecond
		if !limit.IsZero() {
			stall = patience
		}
		if n, err := c.WriteWithin(make([]byte, 64<<20), stall, limit); !errors.Is(err, os.ErrDeadlineExceeded) || n == 64<<20 {
			t.Errorf("stalled: wrote %d bytes, %v", n, err)
		}
	}
}

// Linger waits until the other side has closed, too, and discards its data.
func TestLinger(t *testing.T) {
	c, far := newConn(t)
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, far) // until FIN
		_, _ = far.Write([]byte("still here"))
		time.Sleep(50 * time.Millisecond)
		close(closed)
		far.Close()
	}()
	c.Linger(patience)
	select {
	case <-closed:
	default:
		t.Error("it did not wait for the other side")
	}
	c, _ = newConn(t)
	began := time.Now()
	if c.AwaitClose(50*time.Millisecond) || time.Since(began) < 50*time.Millisecond {
		t.Errorf("a side that does not close: after %v", time.Since(began))
	}
}

// Abort resets the connection.
func TestAbort(t *testing.T) {
	c, far := newConn(t)
	c.Abort()
	c.Close()
	if _, err := read(far); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
}

// Unread shows what the other side has sent, or that it has closed, even after a deadline has passed, and leaves it to be read.
func TestUnread(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*net.TCPConn)
		want string // empty: an error
	}{
		"data":  {func(c *net.TCPConn) { _, _ = c.Write([]byte("xyz")) }, "xyz"},
		"close": {func(c *net.TCPConn) { c.Close() }, ""},
		"reset": {func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }, ""},
	} {
		near, far := newConn(t)
		_ = near.SetDeadline(netconn.PastDeadline())
		if unread, err := near.Unread(); err != nil || len(unread) > 0 {
			t.Errorf("%s: before: %q, %v", name, unread, err)
		}
		c.end(far)
		var unread []byte
		var err error
		testkit.WaitFor(t, "it to arrive", func() bool {
			unread, err = near.Unread()
			return err != nil || len(unread) > 0
		})
		if string(unread) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", name, unread, err)
		}
	}
}

// Read does not return what was skipped, and returns the rest.
func TestSkip(t *testing.T) {
	near, far := newConn(t)
	_, _ = far.Write([]byte("\r\nabc"))
	testkit.WaitFor(t, "it to arrive", func() bool {
		unread, err := near.Unread()
		return err == nil && len(unread) == 5
	})
	if err := near.Skip(2); err != nil {
		t.Fatal(err)
	}
	var got [8]byte
	if n, err := near.Read(got[:]); err != nil || string(got[:n]) != "abc" {
		t.Errorf("read %q, %v", got[:n], err)
	}
}

func TestErrorClasses(t *testing.T) {
	f := func(err error, timeout, shortage, local bool) {
		t.Helper()
		err = &net.OpError{Op: "test", Err: err}
		if netconn.IsTimeout(err) != timeout || netconn.IsShortage(err) != shortage || netconn.IsLocalShortage(err) != local {
			t.Errorf("%v: timeout %v, shortage %v, local shortage %v", err, netconn.IsTimeout(err), netconn.IsShortage(err), netconn.IsLocalShortage(err))
		}
	}
	f(os.ErrDeadlineExceeded, true, false, false)
	f(syscall.EMFILE, false, true, true)
	f(syscall.ECONNABORTED, false, true, false)
	f(syscall.ECONNREFUSED, false, false, false)
}
