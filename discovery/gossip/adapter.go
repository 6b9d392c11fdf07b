package gossip

import (
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// adapter has all callbacks of the library, which calls them with the lock of its state held: each is fast, and none calls the library.
// They copy the nodes they get, since the library writes to those later.
type adapter struct {
	members *members
	logger  *slog.Logger
}

var errNotAMember = errors.New("its name or address is not that of a process")

// NotifyAlive refuses a member before the library takes it up.
func (a *adapter) NotifyAlive(n *memberlist.Node) error {
	p, ok := parseName(n.Name)
	if !ok || !addressOf(n).IsValid() {
		return errNotAMember
	}
	if !a.members.hasRoom(p) {
		return errors.New("more members than a colo can have")
	}
	return nil
}

// NotifyJoin records that a process is alive: a new one, or one that had been found dead.
func (a *adapter) NotifyJoin(n *memberlist.Node) { a.set(n, true) }

// NotifyLeave records that a process was found dead, or has left.
func (a *adapter) NotifyLeave(n *memberlist.Node) { a.set(n, false) }

// NotifyUpdate has no effect: members have no data of their own.
func (a *adapter) NotifyUpdate(*memberlist.Node) {}

// NotifyConflict logs that two addresses claim one process, which only a copied boot id or a holder of the key can cause.
func (a *adapter) NotifyConflict(has, wants *memberlist.Node) {
	if p, ok := parseName(has.Name); ok {
		a.logger.Debug("two addresses gossip as one process", "node", p.node, "boot", p.boot, "address", addressOf(has), "refused", addressOf(wants))
	}
}

func (a *adapter) set(n *memberlist.Node, alive bool) {
	p, ok := parseName(n.Name)
	if !ok {
		return
	}
	m := Member{Node: p.node, Boot: p.boot, Address: addressOf(n).String(), Alive: alive, Since: time.Now()}
	switch {
	case !a.members.set(m):
	case alive:
		a.logger.Info("gossip: a sibling is alive", "node", m.Node, "boot", m.Boot, "address", m.Address)
	default:
		a.logger.Info("gossip: a sibling is dead or has left", "node", m.Node, "boot", m.Boot, "address", m.Address)
	}
}

// addressOf returns the address of a member; it is invalid if that is not an address of one host.
func addressOf(n *memberlist.Node) netip.AddrPort {
	ip, ok := netip.AddrFromSlice(n.Addr)
	ip = ip.Unmap()
	if !ok || ip.IsUnspecified() || ip.IsMulticast() || n.Port == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, n.Port)
}
