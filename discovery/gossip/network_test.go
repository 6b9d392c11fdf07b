package gossip_test

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// network connects members in memory, so that a test can run in a synctest bubble. It loses packets and cuts members from each other.
type network struct {
	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	loss   float64                                     // the share of packets, and of connections, that is lost
	cut    func(from, to netip.AddrPort) (broken bool) // nil = no cut
	sends  int                                         // packets and connections that were begun
	record func(to *host, packet *memberlist.Packet)   // nil = none
	hosts  map[netip.AddrPort]*host
}

func newNetwork(seed uint64) *network {
	return &network{random: rand.New(rand.NewPCG(seed, 1)), hosts: map[netip.AddrPort]*host{}}
}

// setLoss sets the share that is lost.
func (n *network) setLoss(share float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = share
}

// setCut sets which members do not reach each other.
func (n *network) setCut(cut func(from, to netip.AddrPort) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
}

// lookup returns the host at an address, unless what is sent there is lost.
func (n *network) lookup(from netip.AddrPort, address string) *host {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sends++
	if n.random.Float64() < n.loss || n.cut != nil && n.cut(from, to) {
		return nil
	}
	return n.hosts[to]
}

// sent returns how many packets and connections were begun.
func (n *network) sent() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sends
}

// host is the transport of one member.
type host struct {
	network *network
	address netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
}

func (n *network) host(address string) *host {
	h := &host{network: n, address: netip.MustParseAddrPort(address), packets: make(chan *memberlist.Packet, 1024), streams: make(chan net.Conn, 64)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[h.address] = h
	return h
}

func (h *host) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return h.address.Addr().AsSlice(), int(h.address.Port()), nil
}

func (h *host) WriteTo(packet []byte, address string) (time.Time, error) {
	if to := h.network.lookup(h.address, address); to != nil {
		p := &memberlist.Packet{Buf: append([]byte(nil), packet...), From: net.UDPAddrFromAddrPort(h.address), Timestamp: time.Now()}
		if h.network.record != nil {
			h.network.record(to, p)
		}
		select {
		case to.packets <- p:
		default: // as a socket whose buffer is full
		}
	}
	return time.Now(), nil
}

func (h *host) WriteToAddress(packet []byte, a memberlist.Address) (time.Time, error) {
	return h.WriteTo(packet, a.Addr)
}

func (h *host) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	to := h.network.lookup(h.address, address)
	if to == nil || h.network.lookup(to.address, h.address.String()) == nil {
		time.Sleep(timeout)
		return nil, errors.New("no answer")
	}
	here, there := net.Pipe()
	// The first write has no deadline of memberlist's own. In a socket's buffer it would not wait; here it would wait forever for a host
	// that has shut down and accepts no stream.
	_ = here.SetDeadline(time.Now().Add(timeout))
	select {
	case to.streams <- there:
		return here, nil
	default:
		return nil, errors.New("refused")
	}
}

func (h *host) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return h.DialTimeout(a.Addr, timeout)
}

func (h *host) PacketCh() <-chan *memberlist.Packet { return h.packets }
func (h *host) StreamCh() <-chan net.Conn           { return h.streams }

func (h *host) Shutdown() error {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.network.hosts[h.address] == h {
		delete(h.network.hosts, h.address)
	}
	return nil
}
