package serve_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// connection is an established TCP connection of a process, by its ports.
type connection struct{ local, remote string }

// connections returns the established TCP connections over IPv4 of a process.
func connections(t *testing.T, pid int) (all []connection) {
	t.Helper()
	own := sockets(t, pid)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		const local, remote, state, inode, established = 1, 2, 3, 9, "01"
		if f := strings.Fields(line); len(f) > inode && f[state] == established && own["socket:["+f[inode]+"]"] {
			all = append(all, connection{port(t, f[local]), port(t, f[remote])})
		}
	}
	return all
}

// port returns the port of an address as in /proc/net/tcp, in decimal.
func port(t *testing.T, address string) string {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(address[strings.Index(address, ":"):], ":%X", &n); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return fmt.Sprint(n)
}

// sockets returns the sockets that a process has open.
func sockets(t *testing.T, pid int) map[string]bool {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range open {
		if target, err := os.Readlink(dir + "/" + file.Name()); err == nil {
			found[target] = true
		}
	}
	return found
}

// portOf returns the port of an address.
func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Each running request has one connection to the process, and one from it to the engine. The process has no others, but for one that a health
// check has left to the engine, and those of its admin pages.
func TestTwoConnectionsForEachRequest(t *testing.T) {
	t.Parallel()
	const requests = 6
	f, n := start(t, proctest.Config{Slots: requests})
	body := `{"model":"pool-1","stream":true,"max_tokens":100000,"messages":[]}`
	for range requests {
		c := wiretest.Dial(t, n.Address)
		c.Post("/v1/chat/completions", body)
		c.ReadUntil("data:", 1)
		defer c.Close()
	}
	testkit.WaitFor(t, "all requests to run", func() bool { return f.Engines[0].Stats().Running == requests })
	count := map[string]int{}
	for _, c := range connections(t, n.PID()) {
		switch {
		case c.local == portOf(t, n.Address):
			count["in"]++
		case c.remote == portOf(t, f.Engines[0].URL):
			count["out"]++
		case c.local != portOf(t, n.Admin):
			t.Errorf("a connection from port %s to port %s", c.local, c.remote)
		}
	}
	if count["in"] != requests || count["out"] < requests || count["out"] > requests+1 {
		t.Errorf("%d requests have %d connections in and %d out", requests, count["in"], count["out"])
	}
}
