package gossip

import (
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// timings are what tests shorten.
type timings struct {
	probe  time.Duration // between two probes; a probe that has no answer by then has failed
	answer time.Duration // of a direct probe, before others and TCP are tried
	gossip time.Duration // between two rounds of news
	dial   time.Duration // to connect, to resolve, and for one stream
	poll   time.Duration // between two looks at the registrations
	rejoin time.Duration // between two attempts to join a registered sibling that is not alive here
	warn   time.Duration // attempts fail for as long before that is logged; registrations of dead servers last five seconds
	leave  time.Duration // to tell siblings about the end
}

func defaultTimings() timings {
	return timings{
		probe: 200 * time.Millisecond, answer: 80 * time.Millisecond, gossip: 100 * time.Millisecond, dial: time.Second,
		poll: time.Second, rejoin: 5 * time.Second, warn: 20 * time.Second, leave: 500 * time.Millisecond,
	}
}

const (
	// suspicionProbes is for how many probes a process may refute a suspicion.
	suspicionProbes = 4
	// maxSlowdown bounds how much slower a member probes that misses answers of several others, and is probably slow itself.
	maxSlowdown = 2
	// gossipToDead is how long the library remembers a dead member and gossips to it, so that it can refute.
	gossipToDead = 30 * time.Second
	// reclaim is when another address may have the name of a dead member. Names have the boot id, so only a process whose address was
	// translated anew needs that.
	reclaim = time.Second
	// syncInterval is between two exchanges of the whole state with one member.
	syncInterval = 15 * time.Second
	// maxSend bounds packets, so that they are not fragmented.
	maxSend = 1200
)

// libraryConfig returns the settings of the library. It begins with those for a LAN, for what is not set here.
func (g *Gossip) libraryConfig(self netip.AddrPort, log *libraryLog) *memberlist.Config {
	callbacks := &adapter{g.members, g.config.Logger}
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label, c.Keyring = g.members.self.name(), g.config.Colo, g.keyring
	c.Transport, c.Logger = g.transport, log.logger()
	c.AdvertiseAddr, c.AdvertisePort, c.BindPort = self.Addr().String(), int(self.Port()), int(self.Port())
	c.ProtocolVersion = memberlist.ProtocolVersionMax
	c.Events, c.Alive, c.Conflict = callbacks, callbacks, callbacks

	c.ProbeInterval, c.ProbeTimeout, c.GossipInterval, c.TCPTimeout = g.timings.probe, g.timings.answer, g.timings.gossip, g.timings.dial
	c.SuspicionMult, c.SuspicionMaxTimeoutMult, c.AwarenessMaxMultiplier = suspicionProbes, 1, maxSlowdown
	c.GossipToTheDeadTime, c.DeadNodeReclaimTime, c.PushPullInterval = gossipToDead, reclaim, syncInterval
	c.EnableCompression, c.UDPBufferSize = false, maxSend
	c.RetransmitMult = 8
	return c
}
