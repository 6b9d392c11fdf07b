package nats

import (
	"context"
	"net"
)

// dialer makes the connections of one nats.Connect, which takes no context and gives each server connectTimeout. When ctx is done, the
// handshake of the connection that it has made last fails, and so does each further connection.
type dialer struct {
	ctx  context.Context
	stop func() bool // nil = no connection was made
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.keep()
	to := net.Dialer{Timeout: connectTimeout}
	conn, err := to.DialContext(d.ctx, network, address)
	if err == nil {
		d.stop = context.AfterFunc(d.ctx, func() { _ = conn.Close() })
	}
	return conn, err
}

// keep leaves the connection that was made last open when ctx is done.
func (d *dialer) keep() {
	if d.stop != nil {
		d.stop()
	}
}
