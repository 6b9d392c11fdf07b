package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// setRefuseNew makes the kernel drop what comes to a socket, or not. To a listener that is the first packet of a
// connection: its client sends another one a second later, and finds the listener closed, or another process.
// Handshakes that have begun go on.
//
// It does so by asking for packets that have the largest count of hops still before them. A neighbour that sends such,
// which the common systems do not by default, is let in until the listener closes, and may then be reset. A socket
// filter would turn away everybody, but not every kernel has those.
func setRefuseNew(socket syscall.Conn, away bool) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	hops := 0
	if away {
		hops = 255
	}
	var v4, v6 error
	err = raw.Control(func(fd uintptr) {
		v4 = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MINTTL, hops)
		v6 = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, hops)
	})
	return errors.Join(err, v4, v6)
}
