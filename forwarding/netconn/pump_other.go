//go:build !linux || portable

package netconn

import (
	"time"

	"colonnade/forwarding/link"
)

// Pump does nothing on this system: see [Conn.PollShared].
type Pump struct{}

// NewPump returns a pump.
func NewPump(*link.Flusher) *Pump { return nil }

// Close does nothing.
func (p *Pump) Close() {}

type pumpLoop struct{}

func (l *pumpLoop) ended() bool { return false }

type acks struct{}

func (a *acks) received(int, time.Duration) {}

func (c *Conn) share() error { return nil }

func newRest() func() { return nil }
