package netconn

import (
	"golang.org/x/sys/unix"

	"colonnade/forwarding/link"
)

// RoomProbe says whether a write to a TCP connection, with or without TLS, or to a stream of a link would wait. It is for one goroutine at a time.
type RoomProbe struct {
	stream *link.Stream // instead of socket
	socket *Socket
	probe  func(fd uintptr) // method value of poll
	room   bool
}

// NewRoomProbe returns a RoomProbe for a connection.
func NewRoomProbe(s *Socket) *RoomProbe {
	p := &RoomProbe{socket: s}
	p.probe = p.poll
	return p
}

// NewStreamRoomProbe returns a RoomProbe for a stream.
func NewStreamRoomProbe(s *link.Stream) *RoomProbe { return &RoomProbe{stream: s} }

// Has reports whether a write of n bytes would not wait. A socket has room while a third of its buffer is free, whatever n is.
func (p *RoomProbe) Has(n int) bool {
	if p.stream != nil {
		return p.stream.HasRoom(n)
	}
	p.room = true // of a connection that is closed, which the write finds out
	_ = p.socket.raw.Control(p.probe)
	return p.room
}

func (p *RoomProbe) poll(fd uintptr) { p.room = writableNow(int(fd)) }

// Arrived returns how many bytes have arrived on the connection that were not read; over TLS, those that are not decrypted yet. It returns 0 for a stream.
func (c *Conn) Arrived() (n int) {
	if c.stream != nil {
		return 0
	}
	_ = c.socket.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), FIONREAD) })
	return n
}
