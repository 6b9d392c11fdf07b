//go:build !portable

package netconn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"colonnade/forwarding/netconn"
)

// shareAfter is more pieces than a connection reads before it is shared.
const shareAfter = 20

// newPumped returns a connection with a pump.
func newPumped(t *testing.T) (*netconn.Conn, *net.TCPConn, *netconn.Pump) {
	t.Helper()
	c, far := newConn(t)
	c.Pump = netconn.NewPump(nil)
	t.Cleanup(c.Pump.Close)
	c.IdleTimeout = patience
	return c, far, c.Pump
}

// pumped is what PollShared has led to.
type pumped struct {
	got    bytes.Buffer
	shared int // steps that the pump has called
	err    error
}

// pumpAll reads until each returns false, or Read fails. each is called after each read, with whether the pump has called the step.
func pumpAll(c *netconn.Conn, each func(p *pumped, shared bool) bool) *pumped {
	p := &pumped{}
	buf := make([]byte, 4<<10)
	c.PollShared(4, func() bool {
		shared := strings.Contains(string(debug.Stack()), "pumpLoop")
		if shared {
			p.shared++
		}
		for {
			n, err := c.Read(buf)
			if errors.Is(err, netconn.ErrWouldBlock) {
				return true
			}
			p.got.Write(buf[:n])
			if p.err = err; err != nil || !each(p, shared) {
				return false
			}
		}
	})
	return p
}

// echoShared sends a byte after each read, until the pump has called a step; then it calls shared once.
func echoShared(far *net.TCPConn, shared func()) func(*pumped, bool) bool {
	_, _ = far.Write([]byte("x"))
	return func(_ *pumped, now bool) bool {
		switch {
		case !now:
			_, _ = far.Write([]byte("x"))
		case shared != nil:
			shared()
			shared = nil
		}
		return true
	}
}

// A busy connection is moved to the pump, and comes back with all that has arrived.
func TestPumpReturnsTheConnection(t *testing.T) {
	t.Parallel()
	c, far, _ := newPumped(t)
	for round := range 2 { // the second round shares the connection again
		_, _ = far.Write([]byte("x"))
		p := pumpAll(c, func(p *pumped, _ bool) bool {
			if p.got.Len() < 2*shareAfter {
				_, _ = far.Write([]byte("x"))
				return true
			}
			_, _ = far.Write([]byte("rest"))
			return false
		})
		if p.err != nil || p.got.String() != strings.Repeat("x", 2*shareAfter) || p.shared == 0 {
			t.Fatalf("round %d: %q, %d of the steps shared, %v", round, p.got.String(), p.shared, p.err)
		}
		rest := make([]byte, 4)
		if _, err := io.ReadFull(c, rest); err != nil || string(rest) != "rest" {
			t.Fatalf("round %d: behind it: %q, %v", round, rest, err)
		}
		if _, err := c.Write([]byte("y")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(far, rest[:1]); err != nil || rest[0] != 'y' {
			t.Fatalf("round %d: the far side got %q, %v", round, rest[:1], err)
		}
	}
}

// The end of a shared connection is read after all that came before it, however it comes.
func TestPumpNoticesTheEnd(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		end  func(*net.TCPConn) error
		want error
	}{
		"closed": {(*net.TCPConn).Close, io.EOF},
		"reset":  {func(far *net.TCPConn) error { return errors.Join(far.SetLinger(0), far.Close()) }, syscall.ECONNRESET},
	} {
		c, far, _ := newPumped(t)
		p := pumpAll(c, echoShared(far, func() { _ = f.end(far) }))
		if !errors.Is(p.err, f.want) || p.shared == 0 {
			t.Errorf("%s: %v after %d shared steps", name, p.err, p.shared)
		}
	}
}

// A limit that passes, and Cancel, end a shared connection as any other.
func TestPumpLimits(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		limit func(*netconn.Conn)
		end   func(*netconn.Conn) // once shared
		want  error
	}{
		"idle":     {func(c *netconn.Conn) { c.IdleTimeout = 100 * time.Millisecond }, func(*netconn.Conn) {}, os.ErrDeadlineExceeded},
		"deadline": {func(c *netconn.Conn) { c.Deadline = time.Now().Add(300 * time.Millisecond) }, func(*netconn.Conn) {}, os.ErrDeadlineExceeded},
		"cancel":   {func(*netconn.Conn) {}, func(c *netconn.Conn) { go c.Cancel() }, netconn.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, far, _ := newPumped(t)
			f.limit(c)
			p := pumpAll(c, echoShared(far, func() { f.end(c) }))
			if _, err := read(c); !errors.Is(err, f.want) || p.err != nil {
				t.Errorf("%v, and the next read %v", p.err, err)
			}
		})
	}
}

// A panic in a shared step comes out of PollShared, with its stack.
func TestPumpPanics(t *testing.T) {
	t.Parallel()
	c, far, _ := newPumped(t)
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, "on purpose") || !strings.Contains(v, "TestPumpPanics") {
			t.Errorf("recovered %q", v)
		}
		_, _ = far.Write([]byte("y"))
		if _, err := read(c); err != nil {
			t.Errorf("after a panic: %v", err)
		}
	}()
	pumpAll(c, echoShared(far, func() { panic("on purpose") }))
	t.Error("no panic")
}

// Connections of a pump that is closed go on by themselves.
func TestPumpCloses(t *testing.T) {
	t.Parallel()
	c, far, pump := newPumped(t)
	alone := 0
	p := pumpAll(c, func() func(*pumped, bool) bool {
		closed := atomic.Bool{}
		echo := echoShared(far, func() {
			go func() {
				pump.Close()
				closed.Store(true)
				_, _ = far.Write([]byte("after"))
			}()
		})
		return func(p *pumped, shared bool) bool {
			if closed.Load() && !shared {
				alone++
				return false
			}
			return echo(p, shared)
		}
	}())
	if p.err != nil || alone != 1 || !strings.HasSuffix(p.got.String(), "after") {
		t.Errorf("%q, %v", p.got.String(), p.err)
	}
}

// A connection that always has more does not keep the others from their steps.
func TestPumpIsFair(t *testing.T) {
	t.Parallel()
	busy, source, pump := newPumped(t)
	var done atomic.Bool
	var all sync.WaitGroup
	hogs := make(chan struct{})
	all.Go(func() {
		echo := echoShared(source, func() {
			close(hogs)
			_, _ = source.Write(make([]byte, 64<<10))
		})
		pumpAll(busy, func(p *pumped, shared bool) bool {
			if echo(p, shared); shared {
				_, _ = source.Write(make([]byte, 4<<10)) // as much as each read takes
			}
			return !done.Load()
		})
	})
	<-hogs
	c, far := newConn(t)
	c.Pump, c.IdleTimeout = pump, patience
	_, _ = far.Write([]byte("x"))
	p := pumpAll(c, func(p *pumped, _ bool) bool {
		_, _ = far.Write([]byte("x"))
		return p.got.Len() < 4*shareAfter
	})
	if done.Store(true); p.err != nil || p.shared == 0 {
		t.Errorf("%d shared steps, %v", p.shared, p.err)
	}
	all.Wait()
}

// Many connections that begin, end and are cancelled at any time get their own bytes, and no step after their end.
func TestPumpWithManyConnections(t *testing.T) {
	t.Parallel()
	pump := netconn.NewPump(nil)
	t.Cleanup(pump.Close)
	const pieces = 60
	var all sync.WaitGroup
	for i := range 24 {
		c, far := newConn(t)
		c.Pump, c.IdleTimeout = pump, patience
		mine := []byte{'a' + byte(i)}
		all.Go(func() {
			for n := range pieces {
				if _, err := far.Write(mine); err != nil {
					return
				}
				if i%3 == 0 && n == pieces/2 {
					c.Cancel()
					return
				}
				time.Sleep(time.Duration(i%4) * 100 * time.Microsecond)
			}
			far.Close()
		})
		all.Go(func() {
			ended := false
			p := pumpAll(c, func(*pumped, bool) bool {
				if ended {
					t.Error("a step after the end")
				}
				return true
			})
			ended = true
			if others := bytes.Trim(p.got.Bytes(), string(mine)); len(others) > 0 || i%3 != 0 && p.got.Len() != pieces {
				t.Errorf("connection %c: %q, %v", mine[0], p.got.String(), p.err)
			}
		})
	}
	all.Wait()
}

// A TryWriter returns how much the socket has taken, and never waits.
func TestTryWriter(t *testing.T) {
	t.Parallel()
	tcp, far := pair(t)
	socket := netconn.NewSocket(tcp)
	w := netconn.NewTryWriter(socket)
	piece := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	sent := 0
	for {
		n, err := w.Write(piece)
		if err != nil {
			t.Fatal(err)
		}
		if sent += n; n < len(piece) {
			break
		}
	}
	if n, err := w.Write(piece[:1]); n != 0 || err != nil {
		t.Errorf("into a full socket: %d, %v", n, err)
	}
	if n, err := io.CopyN(io.Discard, far, int64(sent)); err != nil {
		t.Errorf("%d of %d bytes arrived: %v", n, sent, err)
	}
	_ = socket.SetWriteDeadline(netconn.PastDeadline())
	if _, err := w.Write(piece); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	_ = socket.SetWriteDeadline(time.Time{})
	far.Close()
	var err error
	for err == nil {
		_, err = w.Write(piece[:1])
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("to a closed connection: %v", err)
	}
}

// A connection comes back also when the process has no descriptor left.
func TestPumpReturnsTheConnectionWithoutDescriptors(t *testing.T) {
	c, far, _ := newPumped(t)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var taken []int
	_, _ = far.Write([]byte("x"))
	p := pumpAll(c, func(p *pumped, shared bool) bool {
		_, _ = far.Write([]byte("x"))
		if !shared || p.got.Len() < shareAfter {
			return true
		}
		few := unix.Rlimit{Cur: 128, Max: before.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Error(err)
		}
		for {
			fd, err := unix.Dup(1)
			if err != nil {
				return false
			}
			taken = append(taken, fd)
		}
	})
	for _, fd := range taken {
		_ = unix.Close(fd)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if _, err := read(c); err != nil || p.shared == 0 {
		t.Errorf("after %d shared steps: %v", p.shared, err)
	}
}

// A connection that the pump cannot take goes on by itself.
func TestPumpThatIsClosed(t *testing.T) {
	t.Parallel()
	c, far, pump := newPumped(t)
	pump.Close()
	_, _ = far.Write([]byte("x"))
	p := pumpAll(c, func(p *pumped, _ bool) bool {
		_, _ = far.Write([]byte("x"))
		return p.got.Len() < 2*shareAfter
	})
	if p.err != nil || p.shared != 0 || p.got.Len() != 2*shareAfter {
		t.Errorf("%q, %d shared steps, %v", p.got.String(), p.shared, p.err)
	}
}
