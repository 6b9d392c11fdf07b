package fleettest

import (
	"os"
	"testing"

	"colonnade/onebox"
)

// Serve reports whether each fleet is one process that serves one colo: see [Fleet].
func Serve() bool { return os.Getenv("COLONNADE_SERVE") != "" }

// NeedsFleet skips a test of something that one process for one colo does not have, if each fleet is such a process.
func NeedsFleet(t testing.TB, what string) {
	t.Helper()
	if Serve() {
		t.Skipf("it needs %s, which colonnade serve does not have", what)
	}
}

// PeerListener returns the address at which a colo server listens for other nodes; false if the fleet is one process, which has none.
func (f *Fleet) PeerListener() (address string, found bool) { return f.Colos[0].Address, f.Etcd != "" }

// setServe makes the fleet one process. A test that wants a choice of colos or servers is skipped; one that leaves the colos to the default
// gets one colo. Such a process has no connections to other nodes that certificates could protect.
func setServe(t testing.TB, c *onebox.Config) {
	t.Helper()
	switch {
	case len(c.Colos) > 1:
		NeedsFleet(t, "several colos")
	case len(c.Servers) > 0:
		NeedsFleet(t, "several servers of a colo")
	case c.Latency != nil:
		NeedsFleet(t, "a network between nodes")
	case c.EtcdURL != "":
		NeedsFleet(t, "an etcd")
	case c.KeysOf != nil:
		NeedsFleet(t, "keys of nodes")
	}
	if c.Colos == nil {
		c.Colos = []string{"ams"}
	}
	c.Serve, c.PeerTLS = true, nil
}
