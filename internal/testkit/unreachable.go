package testkit

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// Unreachable returns an address on which connections are neither accepted nor refused, until the end of the test.
func Unreachable(t testing.TB) (address string) {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(socket)
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := errors.Join(syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(socket, 0)); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	address = (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*syscall.SockaddrInet4).Port}).String()
	for range 8 { // until its backlog has no room
		c, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return address
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the backlog has no end")
	return ""
}
