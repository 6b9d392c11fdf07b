//go:build !linux || portable || race

package netconn

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// The race detector knows of these calls that a byte is read after it was written.

// readNow reads what a socket that does not block has.
func readNow(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

// receiveNow is readNow with flags of recv(2).
func receiveNow(fd int, p []byte, flags int) (n int, err error) {
	n, _, err = syscall.Recvfrom(fd, p, flags|syscall.MSG_DONTWAIT)
	return n, err
}

// writeNow writes what a socket that does not block takes.
func writeNow(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }

// writableNow reports whether a socket takes more, or has failed.
func writableNow(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
	return n > 0 || err != nil
}
