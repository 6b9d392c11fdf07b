package netconn

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// ErrUnread is returned by [Conn.Read] after [Conn.Ask], if something had arrived, or the connection had ended, before the request was sent.
var ErrUnread = errors.New("the connection has unread bytes, or has ended")

// asker is the state of [Conn.Ask]. Its memory is kept with the connection.
type asker struct {
	request []byte // not nil = the next Read sends it
	quiet   bool   // only if nothing has arrived
	step    func(fd uintptr) bool

	phase askPhase
	sent  int
	buf   []byte // for the answer
	n     int
	err   error
}

type askPhase uint8

const (
	askSends   askPhase = iota // nothing was sent
	askUnread                  // something had arrived before
	askPartly                  // the socket did not take the whole request
	askAwaits                  // the request was sent, and its answer is awaited
	askAnswers                 // bytes have arrived, or the end
)

// CanAsk reports whether Ask may be called.
func (c *Conn) CanAsk() bool { return c.CanPoll() }

// Ask makes the next Read send a request before it waits for the answer. To send and to wait in one costs a system call less, since a read
// that finds nothing is left out. With quiet, Read fails with [ErrUnread] and sends nothing if something has arrived before. request must not
// change until Read has returned. The write deadline holds for what the socket does not take at once.
func (c *Conn) Ask(request []byte, quiet bool) {
	a := &c.asker
	if a.step == nil {
		a.step = c.askNow
	}
	a.request, a.quiet, a.sent = request, quiet, 0
}

// Asked returns how many bytes of the request were sent.
func (c *Conn) Asked() int { return c.asker.sent }

// ask sends the request, and reads the first bytes of the answer, until the deadline.
func (c *Conn) ask(p []byte, deadline time.Time) (int, error) {
	a := &c.asker
	a.phase, a.buf, a.err = askSends, p, nil
	defer func() { a.request, a.buf = nil, nil }()
	if err := c.moveReadDeadline(deadline); err != nil {
		return 0, err
	}
	err := c.socket.readWith(a.step)
	switch {
	case err != nil:
		return 0, c.socket.wrap("read", err)
	case a.phase == askUnread:
		return 0, ErrUnread
	case a.phase == askPartly:
		return c.askSlowly(p)
	case a.err != nil && a.phase == askSends:
		return 0, c.socket.wrap("write", os.NewSyscallError("write", a.err))
	case a.err != nil:
		return 0, c.socket.wrap("read", os.NewSyscallError("read", a.err))
	case a.n == 0:
		return 0, io.EOF
	}
	return a.n, nil
}

// askSlowly sends the rest of a request that the socket has not taken at once.
func (c *Conn) askSlowly(p []byte) (int, error) {
	a := &c.asker
	n, err := c.Conn.Write(a.request[a.sent:])
	a.sent += n
	if err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// askNow is called by the runtime at first, and when bytes may have arrived. It returns whether to stop waiting. The runtime has forgotten
// earlier arrivals before the first call, so the wait after that ends with the next one.
func (c *Conn) askNow(fd uintptr) bool {
	a := &c.asker
	if a.phase == askSends {
		return a.send(int(fd))
	}
	for {
		a.n, a.err = readNow(int(fd), a.buf)
		switch {
		case errors.Is(a.err, syscall.EINTR):
			continue
		case errors.Is(a.err, syscall.EAGAIN):
			return false
		}
		a.phase = askAnswers
		return true
	}
}

// send sends the request, unless something has arrived, and returns whether not to wait for the answer.
func (a *asker) send(fd int) bool {
	if a.quiet && hasUnread(fd) {
		a.phase = askUnread
		return true
	}
	for {
		n, err := writeNow(fd, a.request)
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
		if a.sent = n; n < len(a.request) {
			a.phase = askPartly
			return true
		}
		a.phase = askAwaits
		return false
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
