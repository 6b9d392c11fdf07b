//go:build !portable && !race

package netconn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions of this file, and of nowait_linux.go, make system calls that do not wait, or for less than a millisecond, so the scheduler
// of Go need not know of them: it would prepare each time to go on without this thread, and wake the one that watches long system calls,
// which costs more than the call itself.

// readNow reads what a socket has.
func readNow(fd int, p []byte) (int, error) { return receiveNow(fd, p, 0) }

// receiveNow is readNow with flags of recv(2).
func receiveNow(fd int, p []byte, flags int) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		uintptr(flags)|unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// writeNow writes what a socket takes.
func writeNow(fd int, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// writableNow reports whether a socket takes more, or has failed.
func writableNow(fd int) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	var noWait unix.Timespec
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&noWait)), 0, 0, 0)
	return n > 0 || errno != 0
}
