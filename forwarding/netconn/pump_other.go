//go:build !linux || portable

package netconn

// Pump does nothing on this system: see [Conn.PollShared].
type Pump struct{}

// NewPump returns a pump.
func NewPump() *Pump { return nil }

// Close does nothing.
func (p *Pump) Close() {}

type acks struct{}

func (c *Conn) share() error { return nil }

func (p *poller) wake() {}
