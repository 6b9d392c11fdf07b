package bench

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// maxConns bounds the connections to one gateway. Both ends of each may be in this process, and those of the gateway to
	// its engines too, and common shell accounts may open 20 000 files.
	maxConns = 4096
	// idleTimeout is how long a connection is kept unused. It is shorter than common servers', since a connection that is
	// closed while a request is on its way looks like a failure of the gateway.
	idleTimeout = 2 * time.Second
	dialTimeout = 5 * time.Second
)

var errConns = errors.New("the load generator has no connection left")

// conns are the connections to one address, kept between requests.
type conns struct {
	address string

	mu   sync.Mutex // guards the fields below
	idle []*conn    // the last used at the end
	open int
}

type conn struct {
	net.Conn
	in    *bufio.Reader
	since time.Time // when it became idle
	used  bool      // for an earlier request
}

// get returns an idle connection, or a new one.
func (cs *conns) get(ctx context.Context) (*conn, error) {
	cs.mu.Lock()
	for len(cs.idle) > 0 {
		c := cs.idle[len(cs.idle)-1]
		cs.idle = cs.idle[:len(cs.idle)-1]
		if time.Since(c.since) < idleTimeout {
			cs.mu.Unlock()
			return c, nil
		}
		cs.open--
		_ = c.Close()
	}
	cs.mu.Unlock()
	return cs.dial(ctx, false)
}

// dial makes a new connection. That of a slow client has a small receive buffer and packets as on networks: where packets are
// 64 KiB as on loopback, the sender's kernel takes megabytes for the first few in flight.
func (cs *conns) dial(ctx context.Context, slow bool) (*conn, error) {
	cs.mu.Lock()
	if cs.open >= maxConns {
		cs.mu.Unlock()
		return nil, errConns
	}
	cs.open++
	cs.mu.Unlock()
	d := net.Dialer{Timeout: dialTimeout}
	if slow {
		d.Control = setSlowOptions
	}
	nc, err := d.DialContext(ctx, "tcp", cs.address)
	if err != nil {
		cs.forget()
		return nil, err
	}
	return &conn{Conn: nc, in: bufio.NewReaderSize(nc, 8<<10)}, nil
}

// setSlowOptions sets up the socket of a slow client.
func setSlowOptions(_, _ string, raw syscall.RawConn) error {
	var err error
	set := func(fd uintptr) {
		err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, slowBuffer),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, slowPacket))
	}
	return errors.Join(raw.Control(set), err)
}

func (cs *conns) forget() {
	cs.mu.Lock()
	cs.open--
	cs.mu.Unlock()
}

// put returns a connection, to be kept or closed.
func (cs *conns) put(c *conn, keep bool) {
	if !keep {
		_ = c.Close()
		cs.forget()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	c.used, c.since = true, time.Now()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.idle = append(cs.idle, c)
}

// close closes the idle connections.
func (cs *conns) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.idle {
		_ = c.Close()
	}
	cs.open -= len(cs.idle)
	cs.idle = nil
}
