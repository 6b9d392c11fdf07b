//go:build !portable

package netconn

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
