//go:build !portable

package netconn

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// oobSize is the size of the control message that receive reads, in bytes.
const oobSize = 64

// announceRest makes the kernel say with each read how much is left.
func announceRest(s *Socket) {
	_ = s.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_INQ, 1) })
}

// receive reads from a socket without waiting, and returns how many bytes are left to read, -1 if that is not known. After the other side
// has closed the connection, it is never 0: see tcp_inq_hint in the Linux kernel's net/ipv4/tcp.c.
func receive(fd int, buf, oob []byte) (n, left int, err error) {
	n, oobn, _, _, err := syscall.Recvmsg(fd, buf, oob, syscall.MSG_DONTWAIT)
	if err != nil {
		return 0, 0, err
	}
	const header = unix.SizeofCmsghdr
	if oobn < header+4 || binary.NativeEndian.Uint32(oob[header-4:]) != unix.TCP_CM_INQ || binary.NativeEndian.Uint32(oob[header-8:]) != unix.IPPROTO_TCP {
		return n, -1, nil
	}
	return n, int(binary.NativeEndian.Uint32(oob[header:])), nil
}

// receiveNow is receive. A shared step reads once, so that a connection that always has more does not keep the others waiting: the pump calls
// it again for what is left.
func (p *poller) receiveNow(buf []byte) (n, left int, err error) {
	if p.shared {
		n, err = readNow(p.fd, buf)
		return n, 0, err
	}
	return receive(p.fd, buf, p.oob[:])
}
