package gossip

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// NewOver returns a member over another transport than sockets.
func NewOver(c Config, t memberlist.NodeAwareTransport, bound netip.AddrPort) *Gossip {
	return newGossip(c, t, bound)
}

// Replaced returns the keys of a keyring after others have replaced them.
func Replaced(before, after [][]byte) ([][]byte, error) {
	ring := newKeyring(before)
	err := replaceKeys(ring, after)
	return ring.GetKeys(), err
}

// Hasten makes the member faster by a factor.
func (g *Gossip) Hasten(factor time.Duration) {
	t := &g.timings
	for _, d := range []*time.Duration{&t.probe, &t.answer, &t.gossip, &t.dial, &t.poll, &t.rejoin, &t.leave} {
		*d /= factor
	}
}

// OpenStreams returns how many connections the member has.
func (g *Gossip) OpenStreams() int {
	t := g.transport.(*transport)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// The limits of what is read.
const (
	MaxPacket  = maxPacket
	MaxStream  = maxStream
	MaxStreams = maxStreams
	MaxMembers = maxMembers
)

// NewLibraryLogger returns a function that logs a line as the library does.
func NewLibraryLogger(target *slog.Logger) (line func(string), end func()) {
	l := newLibraryLog(target)
	return func(text string) { l.logger().Print(text) }, l.close
}

// NewAdapter returns the callbacks of a member without the library.
func NewAdapter(node, boot string, logger *slog.Logger) (memberlist.EventDelegate, memberlist.AliveDelegate, func() []Member) {
	a := &adapter{newMembers(process{node, boot}), logger}
	return a, a, a.members.list
}
