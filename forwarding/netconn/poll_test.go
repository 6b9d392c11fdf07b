package netconn_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"colonnade/forwarding/netconn"
)

// polled is what Poll has led to.
type polled struct {
	got      []byte
	reads    int
	lastStep bool  // the end came in the step that read the last piece
	err      error // of Read
}

// pollAll reads until each returns false, or Read fails.
func pollAll(c *netconn.Conn, each func(p []byte) bool) (p polled) {
	buf := make([]byte, 4<<10)
	c.Poll(func() bool {
		for p.lastStep = false; ; p.lastStep = true {
			n, err := c.Read(buf)
			if errors.Is(err, netconn.ErrWouldBlock) {
				return true
			}
			p.got, p.err = append(p.got, buf[:n]...), err
			if err != nil {
				return false
			}
			if p.reads++; each != nil && !each(buf[:n]) {
				return false
			}
		}
	})
	return p
}

// Poll returns what arrives, piece by piece, and after it the connection reads as before.
func TestPoll(t *testing.T) {
	c, far := newConn(t)
	write := func(p string) { _, _ = far.Write([]byte(p)) }
	write("one ")
	pieces := 0
	p := pollAll(c, func([]byte) bool {
		if pieces++; pieces < 5 {
			write("next ")
		} else {
			write("rest")
		}
		return pieces < 5
	})
	if p.err != nil || string(p.got) != "one next next next next " || p.reads != 5 {
		t.Errorf("%q in %d reads, %v", p.got, p.reads, p.err)
	}
	rest := make([]byte, 4)
	if _, err := io.ReadFull(c, rest); err != nil || string(rest) != "rest" {
		t.Errorf("behind it: %q, %v", rest, err)
	}
}

// The end of a connection is noticed although it has arrived together with the last bytes, and so wakes Poll no more.
func TestPollNoticesTheEnd(t *testing.T) {
	t.Parallel()
	polled := pollToTheEnd(t, (*net.TCPConn).Close)
	for range 20 { // on a busy machine, the end may arrive later
		if polled.lastStep {
			break
		}
		polled = pollToTheEnd(t, (*net.TCPConn).Close)
	}
	if !errors.Is(polled.err, io.EOF) || string(polled.got) != "first last" || !polled.lastStep {
		t.Errorf("closed: %q, %v, at once: %v", polled.got, polled.err, polled.lastStep)
	}
	reset := func(far *net.TCPConn) error { return errors.Join(far.SetLinger(0), far.Close()) }
	if polled := pollToTheEnd(t, reset); !errors.Is(polled.err, syscall.ECONNRESET) {
		t.Errorf("reset: %q, %v", polled.got, polled.err)
	}
}

// pollToTheEnd polls a connection that the far side ends right behind its last bytes.
func pollToTheEnd(t *testing.T, end func(*net.TCPConn) error) polled {
	t.Helper()
	c, far := newConn(t)
	c.IdleTimeout = patience
	_, _ = far.Write([]byte("first "))
	return pollAll(c, func(p []byte) bool {
		if string(p) == "first " {
			_, _ = far.Write([]byte("last"))
			_ = end(far)
		}
		return true
	})
}

// A limit that passes, and Cancel, end Poll as they end Read.
func TestPollLimits(t *testing.T) {
	for name, f := range map[string]struct {
		limit func(*netconn.Conn)
		want  error
	}{
		"idle":      {func(c *netconn.Conn) { c.IdleTimeout = 30 * time.Millisecond }, os.ErrDeadlineExceeded},
		"deadline":  {func(c *netconn.Conn) { c.Deadline = time.Now().Add(30 * time.Millisecond) }, os.ErrDeadlineExceeded},
		"cancel":    {func(c *netconn.Conn) { time.AfterFunc(30*time.Millisecond, c.Cancel) }, netconn.ErrCancelled},
		"cancelled": {(*netconn.Conn).Cancel, netconn.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, far := newConn(t)
			_, _ = far.Write([]byte("x"))
			began := time.Now()
			f.limit(c)
			pollAll(c, nil)
			_, err := read(c)
			if took := time.Since(began); !errors.Is(err, f.want) || name != "cancelled" && took < 25*time.Millisecond {
				t.Errorf("%v after %v, want %v", err, took, f.want)
			}
		})
	}
}

// Bytes move the idle timeout, although Poll sets no deadline for each of them.
func TestPollMovesTheIdleTimeout(t *testing.T) {
	t.Parallel()
	c, far := newConn(t)
	c.IdleTimeout = 400 * time.Millisecond
	var sent atomic.Pointer[time.Time]
	send := func() {
		now := time.Now()
		sent.Store(&now)
		_, _ = far.Write([]byte("x"))
	}
	send()
	pieces := 0
	pollAll(c, func([]byte) bool {
		if pieces++; pieces < 6 {
			time.AfterFunc(100*time.Millisecond, send)
		}
		return true
	})
	silent, idle := time.Since(*sent.Load()), c.IdleTimeout
	c.IdleTimeout = patience // the next read must not wait again
	if took, err := read(c); took > patience/2 || !errors.Is(err, os.ErrDeadlineExceeded) || pieces == 6 && silent < idle {
		t.Errorf("%d pieces, then %v after a silence of %v", pieces, err, silent)
	}
}

// Time that step takes does not count as silence.
func TestPollCountsNoTimeOfStep(t *testing.T) {
	t.Parallel()
	c, far := newConn(t)
	c.IdleTimeout = 200 * time.Millisecond
	_, _ = far.Write([]byte("slow "))
	pieces := 0
	p := pollAll(c, func([]byte) bool {
		if pieces++; pieces == 1 {
			_, _ = far.Write([]byte("next"))
			time.Sleep(c.IdleTimeout + 50*time.Millisecond)
		}
		return pieces < 2
	})
	if p.err != nil || string(p.got) != "slow next" {
		t.Errorf("%q, %v", p.got, p.err)
	}
}

// A panic in step leaves the connection readable.
func TestPollPanics(t *testing.T) {
	c, far := newConn(t)
	_, _ = far.Write([]byte("x"))
	func() {
		defer func() { _ = recover() }()
		c.Poll(func() bool { panic("on purpose") })
	}()
	if _, err := read(c); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}
