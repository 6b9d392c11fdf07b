package netconn

import (
	"errors"
	"os"
	"syscall"
)

// ErrUnread is returned by [Conn.Ask] if something had arrived, or the connection had ended, before the request was sent.
var ErrUnread = errors.New("the connection has unread bytes, or has ended")

// asker is the state of [Conn.Ask]. It is kept with the connection, so that Ask allocates nothing.
type asker struct {
	step    func(fd uintptr) bool // method value of askNow
	request []byte
	quiet   bool   // send only if nothing has arrived
	sent    func() // called when the whole request was sent

	phase askPhase
	n     int   // bytes sent
	err   error // of the write
}

type askPhase uint8

const (
	askBegins askPhase = iota
	askUnread          // something had arrived before
	askPartly          // the socket has not taken the whole request
	askAwaits          // the request was sent
)

// CanAsk reports whether Ask may be called: without TLS and without a Tick, and not on a Conn of Wrap.
func (c *Conn) CanAsk() bool { return c.CanPoll() }

// Ask sends a request and waits, for as long as Read would, until something has arrived or may have, which it leaves for Read. It returns how
// many bytes of the request were sent. To send and to wait in one saves a read that finds nothing, and the wait needs no buffer. With quiet,
// Ask fails with [ErrUnread] if something has arrived before. It calls sent, at most once, when all of the request was sent, or the rest of it could not be. The write deadline
// holds for what the socket does not take at once; then Ask does not wait.
func (c *Conn) Ask(request []byte, quiet bool, sent func()) (int, error) {
	if c.stream != nil {
		return c.askStream(request, sent)
	}
	a := &c.asker
	if a.step == nil {
		a.step = c.askNow
	}
	a.request, a.quiet, a.sent = request, quiet, sent
	a.phase, a.n, a.err = askBegins, 0, nil
	err := c.ask()
	a.request, a.sent = nil, nil
	return a.n, err
}

func (c *Conn) ask() error {
	a := &c.asker
	if err := c.moveReadDeadline(c.nextReadLimit()); err != nil {
		return err
	}
	err := c.socket.readWith(a.step)
	switch {
	case err != nil:
		return c.socket.wrap("read", err)
	case a.err != nil:
		return c.socket.wrap("write", os.NewSyscallError("write", a.err))
	case a.phase == askUnread:
		return ErrUnread
	case a.phase == askPartly:
		n, err := c.socket.Write(a.request[a.n:])
		a.n += n
		a.sent()
		return err
	}
	return nil
}

// askNow is called by the runtime at first, and when something has arrived, or the connection has ended. It returns whether to stop waiting.
// The runtime forgets earlier arrivals before the first call, so the wait that follows is for the answer.
func (c *Conn) askNow(fd uintptr) bool {
	a := &c.asker
	if a.phase == askAwaits {
		return true
	}
	if a.quiet && hasUnread(int(fd)) {
		a.phase = askUnread
		return true
	}
	for {
		n, err := writeNow(int(fd), a.request)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			a.phase = askPartly
			return true
		case err != nil:
			a.err = err
			return true
		}
		if a.n = n; n < len(a.request) {
			a.phase = askPartly
			return true
		}
		a.phase = askAwaits
		a.sent()
		return !a.quiet && hasUnread(int(fd)) // a new connection may have had bytes before the first call
	}
}

// hasUnread reports whether a socket has bytes to read, an end, or an error.
func hasUnread(fd int) bool {
	var first [1]byte
	for {
		_, err := receiveNow(fd, first[:], syscall.MSG_PEEK)
		if !errors.Is(err, syscall.EINTR) {
			return !errors.Is(err, syscall.EAGAIN)
		}
	}
}
