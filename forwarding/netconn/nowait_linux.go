//go:build !portable

package netconn

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions of this file make system calls that do not wait, or for less than a millisecond, so the scheduler of Go need not know of
// them: it would prepare each time to go on without this thread, and wake the one that watches long system calls, which costs more than the
// call itself.

// readNow reads what a socket has.
func readNow(fd int, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
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

// eventsNow returns the number of events that an epoll set has.
func eventsNow(epoll int, events []unix.EpollEvent) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// holdFor waits without giving the processor to another goroutine. A signal ends it early, such as that of the scheduler to a goroutine
// that has run for too long.
func holdFor(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
