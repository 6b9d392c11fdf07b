package streams_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"colonnade/internal/fleettest"
)

// heldByNodes asks the kernel what it holds for the sockets of the entry and of the colo server, by the direction in which they
// lead.
func heldByNodes(f *fleettest.Fleet) map[string]held {
	f.T.Helper()
	entry, colo, engine := portOf(f.T, f.Entry.Address), portOf(f.T, f.Colos[0].Address), 0
	if u, err := url.Parse(f.Engines[0].URL); err == nil {
		engine = portOf(f.T, u.Host)
	}
	all := map[string]held{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		f.T.Fatal(err)
	}
	for _, name := range fds {
		fd, _ := strconv.Atoi(name.Name())
		here, there := ports(fd)
		switch {
		case here == 0:
		case here == entry:
			add(all, "entry, to clients", fd)
		case there == colo:
			add(all, entryToColo, fd)
		case here == colo:
			add(all, coloToEntry, fd)
		case there == engine:
			add(all, "colo, to engines", fd)
		}
	}
	return all
}

func add(all map[string]held, what string, fd int) {
	h := all[what]
	in, err1 := unix.IoctlGetInt(fd, unix.SIOCINQ)
	out, err2 := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	memory, err3 := socketMemory(fd)
	if err1 == nil && err2 == nil && err3 == nil { // else a listener, or closed meanwhile
		h.sockets++
		h.bytes += int64(in + out)
		h.memory += memory
	}
	all[what] = h
}

// socketMemory returns the kernel memory of a socket, in both directions.
func socketMemory(fd int) (int64, error) {
	const received, forward, queued = 0, 4, 5 // of SK_MEMINFO
	var info [9]int32                         // the reserve may be negative for a moment
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int64(info[received]) + int64(info[forward]) + int64(info[queued]), nil
}

// ports returns the ports of a connection's ends, or 0.
func ports(fd int) (here, there int) {
	port := func(a syscall.Sockaddr, err error) int {
		switch a := a.(type) {
		case *syscall.SockaddrInet4:
			return a.Port
		case *syscall.SockaddrInet6:
			return a.Port
		}
		return 0
	}
	if there = port(syscall.Getpeername(fd)); there == 0 {
		return 0, 0
	}
	return port(syscall.Getsockname(fd)), there
}

func portOf(t testing.TB, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// awaitAcknowledged waits until the other end has acknowledged what was written to c. It returns an error if c is closed.
func awaitAcknowledged(c *rawConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	for unread := 1; unread > 0 && err == nil; time.Sleep(20 * time.Millisecond) {
		err = errors.Join(err, raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }))
	}
	return nil
}
