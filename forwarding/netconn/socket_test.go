package netconn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/internal/testkit"
)

func newSocket(t testing.TB) (near *netconn.Socket, far *net.TCPConn) {
	t.Helper()
	tcp, far := testkit.TCPPair(t)
	_ = far.SetDeadline(time.Now().Add(patience))
	return netconn.NewSocket(tcp), far
}

// A socket passes any number of bytes both ways, and reports the end.
func TestSocketPassesBytes(t *testing.T) {
	t.Parallel()
	near, far := newSocket(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	go func() {
		_, _ = io.CopyN(far, far, int64(len(sent)))
		far.Close()
	}()
	go func() {
		if n, err := near.Write(sent); n != len(sent) || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
	}()
	got, err := io.ReadAll(near)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n, err := near.Read(nil); n != 0 || err != nil {
		t.Errorf("into nothing: %d, %v", n, err)
	}
}

// The errors of a socket are those of a TCP connection.
func TestSocketErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(near *netconn.Socket, far *net.TCPConn) error
		want error
	}{
		"closed":   {func(near *netconn.Socket, _ *net.TCPConn) error { return near.Close() }, net.ErrClosed},
		"deadline": {func(near *netconn.Socket, _ *net.TCPConn) error { return near.SetDeadline(netconn.PastDeadline()) }, os.ErrDeadlineExceeded},
		"reset":    {func(_ *netconn.Socket, far *net.TCPConn) error { return errors.Join(far.SetLinger(0), far.Close()) }, syscall.ECONNRESET},
	} {
		near, far := newSocket(t)
		if err := c.end(near, far); err != nil {
			t.Fatal(err)
		}
		_, err := near.Read(make([]byte, 1))
		var op *net.OpError
		if !errors.Is(err, c.want) || !errors.As(err, &op) || op.Op != "read" || netconn.IsTimeout(err) != (name == "deadline") {
			t.Errorf("%s: read: %v", name, err)
		}
		if c.want == syscall.ECONNRESET {
			c.want = syscall.EPIPE
		}
		if _, err = near.Write([]byte("x")); !errors.Is(err, c.want) || !errors.As(err, &op) || op.Op != "write" {
			t.Errorf("%s: write: %v", name, err)
		}
	}
}

// A deadline that was moved to a later time, before or during a read, holds from its new time on; one that was moved to an earlier time wakes
// the read.
func TestSocketDeadlineMoves(t *testing.T) {
	t.Parallel()
	near, far := newSocket(t)
	began := time.Now()
	_ = near.SetReadDeadline(began.Add(10 * time.Millisecond))
	_ = near.SetReadDeadline(began.Add(50 * time.Millisecond))
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) < 50*time.Millisecond {
		t.Errorf("later: %v after %v", err, time.Since(began))
	}
	_ = near.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_ = near.SetReadDeadline(time.Time{})
	time.AfterFunc(20*time.Millisecond, func() { _, _ = far.Write([]byte("x")) })
	if n, err := near.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("without one: %d, %v", n, err)
	}
	_ = near.SetReadDeadline(time.Now().Add(patience))
	time.AfterFunc(10*time.Millisecond, func() { _ = near.SetReadDeadline(netconn.PastDeadline()) })
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("earlier: %v", err)
	}
	_ = near.SetReadDeadline(time.Now().Add(patience))
	_, _ = far.Write([]byte("y"))
	if n, err := near.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("after one that has passed: %d, %v", n, err)
	}
}

// A write that waits for the other side goes on after the runtime's timer has fired, and what it has written until its deadline counts.
func TestSocketWriteDeadline(t *testing.T) {
	t.Parallel()
	near, far := newSocket(t)
	began := time.Now()
	_ = near.SetWriteDeadline(began.Add(10 * time.Millisecond))
	_ = near.SetWriteDeadline(began.Add(50 * time.Millisecond))
	n, err := near.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) < 50*time.Millisecond {
		t.Fatalf("%d bytes, %v after %v", n, err, time.Since(began))
	}
	near.Close()
	if got, err := io.Copy(io.Discard, far); got != int64(n) || err != nil {
		t.Errorf("%d of %d bytes arrived: %v", got, n, err)
	}
}

// BenchmarkSocket is one round trip, with deadlines that move forward.
func BenchmarkSocket(b *testing.B) {
	run := func(name string, wrap func(*net.TCPConn) net.Conn) {
		b.Run(name, func(b *testing.B) {
			dialed, accepted := testkit.TCPPair(b)
			near, far := wrap(dialed), wrap(accepted)
			go func() {
				buf := make([]byte, 1<<10)
				for {
					n, err := far.Read(buf)
					if err != nil {
						return
					}
					_, _ = far.Write(buf[:n])
				}
			}()
			b.ReportAllocs()
			piece := make([]byte, 1<<10)
			for b.Loop() {
				_ = near.SetDeadline(time.Now().Add(patience))
				if _, err := near.Write(piece); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(near, piece); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("socket", func(c *net.TCPConn) net.Conn { return netconn.NewSocket(c) })
	run("tcp", func(c *net.TCPConn) net.Conn { return c })
}
