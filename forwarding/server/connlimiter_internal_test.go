package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
)

func TestClientPrefix(t *testing.T) {
	f := func(address, want string) {
		t.Helper()
		if got := clientPrefix(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))); got.String() != want {
			t.Errorf("the prefix of %s is %s, want %s", address, got, want)
		}
	}
	f("192.0.2.7:1", "192.0.2.7")
	f("[::ffff:192.0.2.7]:1", "192.0.2.7")
	f("[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2::")
	f("[2001:db8:1:2:ffff::1]:9", "2001:db8:1:2::")
	f("[2001:db8:1:3::1]:1", "2001:db8:1:3::")
	f("[fe80::1%eth0]:1", "fe80::")
	f("[::1]:1", "::")
}

// All addresses of an IPv6 /64 network share one limit.
func TestConnectionsOfOneNetwork(t *testing.T) {
	w := newConnLimiter(&Config{MaxPerIP: 2, Logger: slog.New(slog.DiscardHandler)}, false)
	for i, want := range map[string][]bool{"2001:db8::": {true, true, false}, "2001:db8:0:1::": {true}} {
		for n, in := range want {
			from := clientPrefix(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(fmt.Sprintf("[%s%d]:1", i, n+1))))
			if refusal := w.add(from); (refusal == nil) != in {
				t.Errorf("number %d of %s: %v", n+1, i, refusal)
			}
		}
	}
}

// A connection that its own address may not have takes no other connection's place.
func TestRefusedConnectionsMakeNoRoom(t *testing.T) {
	l := newConnLimiter(&Config{MaxPerIP: 1, MaxConns: 2, Logger: slog.New(slog.DiscardHandler)}, false)
	f := func(address string, want bool) {
		t.Helper()
		if got := l.lacksRoom(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
	f("192.0.2.1", false)
	_, _ = l.add(netip.MustParseAddr("192.0.2.1")), l.add(netip.MustParseAddr("192.0.2.2"))
	f("192.0.2.1", false)
	f("192.0.2.3", true)
}
