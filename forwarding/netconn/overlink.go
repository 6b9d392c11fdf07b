package netconn

import (
	"time"

	"colonnade/forwarding/link"
)

// NewLink returns a link over a connection, to which nothing else reads or writes from then on. accept, limit and flusher are those of [link.Config].
func NewLink(c *Conn, accept func(*link.Stream), limit *link.Limit, flusher *link.Flusher) *link.Link {
	_ = c.SetDeadline(time.Time{}) // of what the connection was used for before
	config := link.Config{Conn: c, Accept: accept, Limit: limit, Flusher: flusher, Rest: newRest()}
	if c.tls == nil && c.socket != nil {
		try := NewTryWriter(c.socket)
		config.TryWrite = try.Write
	}
	return link.New(config)
}
