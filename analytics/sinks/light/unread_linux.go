package light

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// unreadBytes returns how much of what was written the other side has not read yet. If it has closed the connection, that is an error.
func unreadBytes(c *net.UnixConn) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if n, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); failed != nil {
			n, failed = 0, nil // the kernel does not say
			return
		}
		// The kernel discards what a closed connection has not read, and then says so once.
		if code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
			failed = unix.Errno(code)
			return
		}
		poll := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(poll, 0)
		// The kernel forgets what a side that closes has not read, and notes that as an error before.
		if closed, reset := poll[0].Revents&unix.POLLHUP != 0, poll[0].Revents&unix.POLLERR != 0; err == nil && (reset || closed && n > 0) {
			failed = errors.New("the other side has closed the connection")
		}
	})
	return n, errors.Join(err, failed)
}
