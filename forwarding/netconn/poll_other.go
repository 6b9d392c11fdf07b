//go:build !linux || portable

package netconn

import "syscall"

const oobSize = 0

func announceRest(*Socket) {}

// receive reads from a socket, which does not block, and returns that it is not known how many bytes are left.
func receive(fd int, buf, _ []byte) (n, left int, err error) {
	n, err = syscall.Read(fd, buf)
	return n, -1, err
}

func (p *poller) receiveNow(buf []byte) (n, left int, err error) { return receive(p.fd, buf, nil) }
