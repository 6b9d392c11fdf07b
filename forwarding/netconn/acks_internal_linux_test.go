//go:build !portable

package netconn

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A fast stream is acknowledged late, until it is slow twice in a row, as it is where its sender waits for acknowledgements. Then it is
// acknowledged at once to its end, and so is whatever comes after a stream.
func TestAcknowledgementsOfAFastStream(t *testing.T) {
	t.Parallel()
	fd := socketOfPair(t)
	const fast, slow = 5 * time.Millisecond, 41 * time.Millisecond
	var a acks
	want := func(when string, atOnce int) {
		t.Helper()
		if got, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK); err != nil || got != atOnce {
			t.Errorf("%s: acknowledged at once: %d, %v, want %d", when, got, err, atOnce)
		}
	}
	pieces := func(n int, gap time.Duration) {
		for range n {
			a.received(fd, gap)
		}
	}
	pieces(shortGaps-1, fast)
	pieces(1, slow)
	pieces(shortGaps-1, fast)
	want("never fast for long", 1)
	pieces(1, fast)
	want("a fast stream", 0)
	pieces(1, slow)
	pieces(1, fast)
	pieces(1, slow)
	want("with pauses", 0)
	pieces(1, slow)
	want("a slow stream", 1)
	pieces(2*shortGaps, fast)
	want("fast again", 1)
	a = acks{}
	pieces(shortGaps, fast)
	want("another stream", 0)
	a.end(fd)
	want("after it", 1)
}

// socketOfPair returns the descriptor of a connected socket.
func socketOfPair(t *testing.T) (fd int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(s uintptr) { fd = int(s) })
	return fd
}
