package proctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// network is a bridge on this machine. Hosts are network namespaces that are attached to it; the test, etcd and the engines stay
// in the namespace of the test, and have addresses on the bridge.
type network struct {
	name     string // of the bridge; prefix of its namespaces and links
	subnet   string // the first three numbers of all addresses
	etcdIP   string
	engineIP string
	hosts    int
}

// host is a network namespace with one link to the bridge.
type host struct {
	namespace string
	link      string // its end at the bridge
	ip        string
}

// firstHost is the last number of the first host's address.
const firstHost = 11

// CheckNamespaces returns why this process cannot make network namespaces, or nil if it can.
func CheckNamespaces() error {
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("the command ip (iproute2) is not in the PATH, so no network namespaces can be made")
	}
	if os.Geteuid() != 0 {
		return errors.New("only root may make network namespaces")
	}
	n, err := makeNetwork()
	if err != nil {
		return fmt.Errorf("cannot make network namespaces: %w", err)
	}
	return ip("link", "del", n.name)
}

// newNetwork makes a bridge that is removed with the test. The test is skipped where this process may not make one.
func newNetwork(t testing.TB) *network {
	t.Helper()
	if err := CheckNamespaces(); err != nil {
		t.Skip(err)
	}
	n, err := makeNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, "link", "del", n.name) })
	return n
}

// makeNetwork makes a bridge with a name that no other test process uses.
func makeNetwork() (n *network, err error) {
	for range 8 {
		number := rand.IntN(256)
		n = &network{name: fmt.Sprintf("colonnade%d", number), subnet: fmt.Sprintf("198.18.%d", number)} // of RFC 2544, for tests
		n.etcdIP, n.engineIP = n.subnet+".1", n.subnet+".2"
		if err = n.make(); err == nil {
			return n, nil
		}
	}
	return nil, err
}

func (n *network) make() error {
	// A bridge without an address of its own takes one of its links, and another when the next is added: hosts would then send to one
	// that is gone.
	if err := ip("link", "add", n.name, "address", bridgeHardwareAddress, "type", "bridge"); err != nil {
		return err
	}
	err := errors.Join(
		ip("addr", "add", n.etcdIP+"/24", "dev", n.name),
		ip("addr", "add", n.engineIP+"/24", "dev", n.name),
		ip("link", "set", n.name, "up"),
		ip("netns", "add", n.name), // a trial
		ip("netns", "del", n.name))
	if err != nil {
		err = errors.Join(err, ip("link", "del", n.name))
	}
	return err
}

// addHost makes a namespace that is removed with the test, after the processes in it have ended.
func (n *network) addHost(t testing.TB) *host {
	t.Helper()
	n.hosts++
	h := &host{
		namespace: fmt.Sprintf("%s-%d", n.name, n.hosts), link: fmt.Sprintf("%s-%d", strings.Replace(n.name, "colonnade", "cn", 1), n.hosts),
		ip: fmt.Sprintf("%s.%d", n.subnet, firstHost+n.hosts),
	}
	if err := ip("netns", "add", h.namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, "netns", "del", h.namespace) })
	err := errors.Join(
		ip("link", "add", h.link, "type", "veth", "peer", "name", "eth0", "netns", h.namespace),
		ip("link", "set", h.link, "master", n.name, "up"),
		ip("-n", h.namespace, "addr", "add", h.ip+"/24", "dev", "eth0"),
		ip("-n", h.namespace, "link", "set", "eth0", "up"),
		ip("-n", h.namespace, "link", "set", "lo", "up"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// command returns the command line before that of a program, which runs it in the namespace, in the same process.
func (h *host) command() []string { return []string{"ip", "netns", "exec", h.namespace} }

// setLink sets the host's link up or down. Packets in both directions are lost while it is down.
func (h *host) setLink(t testing.TB, state string) {
	t.Helper()
	if err := ip("link", "set", h.link, state); err != nil {
		t.Error(err)
	}
}

// Both are locally administered. The second is of no link: packets for it arrive nowhere.
const (
	bridgeHardwareAddress = "02:00:00:00:00:01"
	unusedHardwareAddress = "02:00:00:00:00:02"
)

// lose has packets to another host lost.
func (h *host) lose(t testing.TB, other *host) {
	t.Helper()
	if err := ip("-n", h.namespace, "neigh", "replace", other.ip, "lladdr", unusedHardwareAddress, "nud", "permanent", "dev", "eth0"); err != nil {
		t.Error(err)
	}
}

// find ends lose.
func (h *host) find(t testing.TB, other *host) {
	t.Helper()
	if err := ip("-n", h.namespace, "neigh", "del", other.ip, "dev", "eth0"); err != nil {
		t.Error(err)
	}
}

// shutPort has packets to a port of the host lost. A rule of routing does it, which must come before that for local addresses. The test is
// skipped where the kernel has no such rules.
func (h *host) shutPort(t testing.TB, port string) {
	t.Helper()
	err := errors.Join(
		ip("-n", h.namespace, "rule", "add", "pref", "100", "lookup", "local"),
		ip("-n", h.namespace, "rule", "del", "pref", "0"),
		ip("-n", h.namespace, "rule", "add", "pref", "1", "iif", "eth0", "ipproto", "udp", "dport", port, "blackhole"),
		ip("-n", h.namespace, "rule", "add", "pref", "1", "iif", "eth0", "ipproto", "tcp", "dport", port, "blackhole"))
	if err != nil {
		t.Skipf("cannot shut a port of a network namespace: %v", err)
	}
}

func remove(t testing.TB, args ...string) {
	if err := ip(args...); err != nil {
		t.Error(err)
	}
}

// ip runs a command of iproute2.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
