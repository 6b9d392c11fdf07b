//go:build !portable

package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// setRefuseNew makes the kernel drop the packets that arrive at a socket, or stops that. At a listening socket this drops the first
// packet of a new connection: its client sends another one after a second, and finds the listener closed, or another process.
// TCP handshakes that have begun go on.
//
// It requires packets to have the highest hop count (GTSM, RFC 5082), which no common system sends by default. A neighbour that
// does is accepted until the listener closes, and may then be reset. A socket filter would drop every packet, but not every
// kernel has those.
func setRefuseNew(socket syscall.Conn, refuse bool) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	hops := 0
	if refuse {
		hops = 255
	}
	var v4, v6 error
	err = raw.Control(func(fd uintptr) {
		v4 = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MINTTL, hops)
		v6 = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, hops)
	})
	return errors.Join(err, v4, v6)
}
