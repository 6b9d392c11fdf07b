package gossip_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"colonnade/discovery/gossip"
	"colonnade/internal/testkit"
)

func none() []gossip.Sibling { return nil }

// listen returns a member on a free port of loopback. It runs until the test ends.
func listen(t *testing.T, node string, r *registry, logs io.Writer) *member {
	t.Helper()
	c := gossip.Config{
		Node: node, Boot: "b-" + node, Colo: "ams", Listen: "127.0.0.1:0", Keys: [][]byte{key(1)}, Siblings: r.list,
		Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	g, err := gossip.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{Gossip: g, config: c, ended: make(chan error, 1)}
	r.put(gossip.Sibling{Node: c.Node, Boot: c.Boot, Address: m.Address()})
	ctx, cancel := context.WithCancel(t.Context())
	m.end = cancel
	go func() { m.ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		m.end()
		if err := <-m.ended; err != nil {
			t.Error("Run:", err)
		}
		if n := m.OpenStreams(); n != 0 {
			testkit.WaitFor(t, "all streams to be closed", func() bool { return m.OpenStreams() == 0 })
		}
	})
	return m
}

// Over real sockets, members find each other by their registrations, and one that ends is found dead. Packets and streams
// of outsiders, before and between, change nothing.
func TestOverSockets(t *testing.T) {
	t.Parallel()
	r := &registry{}
	a := listen(t, "ams-1", r, io.Discard)
	outsiders(t, a.Address())
	b, c := listen(t, "ams-2", r, io.Discard), listen(t, "ams-3", r, io.Discard)
	all := []*member{a, b, c}
	testkit.WaitFor(t, "all members to see each other", func() bool {
		for _, m := range all {
			for _, other := range all {
				if m != other && !m.sees(other) {
					return false
				}
			}
		}
		return true
	})
	outsiders(t, a.Address())
	c.end()
	testkit.WaitFor(t, "the one that ended to be found dead", func() bool { return a.foundDead(c) && b.foundDead(c) })
	if len(a.Members()) != 2 || len(b.Members()) != 2 {
		t.Errorf("members: %v and %v", a.Members(), b.Members())
	}
}

// outsiders sends packets and streams that are malformed, too long or of another colo.
func outsiders(t *testing.T, address string) {
	t.Helper()
	for _, packet := range malformed() {
		udp, err := net.Dial("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = udp.Write(packet)
		udp.Close()
		tcp, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = tcp.Write(packet)
		tcp.Close()
	}
}

// malformed returns what may come in a packet or a stream from an outsider.
func malformed() [][]byte {
	label := append([]byte{244, 3}, "ams"...)
	with := func(rest ...byte) []byte { return append(append([]byte{}, label...), rest...) }
	huge := make([]byte, 60_000)
	all := [][]byte{
		{}, {0}, {244}, {244, 0}, {244, 200, 1}, append([]byte{244, 3}, "fra"...), with(),
		with(0), with(1), with(2), with(255), with(1, 1, 2, 3), with(huge[:40]...), with(append([]byte{1}, huge[:100]...)...),
		with(7, 255, 255, 255), with(9, 0), with(12, 1, 2, 3, 4, 5), huge, with(huge...), testkit.RandomBytes(1, 2, 1000),
	}
	stream := with(10) // an encrypted stream that announces 4 GiB, and one that announces 19 MiB and ends
	all = append(all, binary.BigEndian.AppendUint32(stream, 1<<32-1), binary.BigEndian.AppendUint32(bytes.Clone(stream), 19<<20))
	return all
}

// An outsider that connects and sends more than a stream may have is cut, and connections beyond the limit are closed at once.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	var logs testkit.SyncBuffer
	r := &registry{}
	r.put(gossip.Sibling{Node: "ams-2", Boot: "b", Address: testkit.Unreachable(t)}) // else nothing runs
	a := listen(t, "ams-1", r, &logs)
	long, err := net.Dial("tcp", a.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	go func() {
		_, _ = long.Write(binary.BigEndian.AppendUint32([]byte("\xf4\x03ams\x0a"), 10<<20))
		_, _ = long.Write(make([]byte, 10<<20))
	}()
	testkit.WaitFor(t, "the long stream to be cut", func() bool { return strings.Contains(logs.String(), "more than 262144 bytes in one stream") })
	for range 3 * gossip.MaxStreams {
		c, err := net.Dial("tcp", a.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if n := a.OpenStreams(); n > gossip.MaxStreams {
			t.Fatalf("%d streams are open, want at most %d", n, gossip.MaxStreams)
		}
	}
}

// A port that is taken, by TCP or by UDP, is an error that names it; port 0 finds another.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	f := func(network string, taken net.Addr) {
		t.Helper()
		c := gossip.Config{Node: "ams-1", Boot: "b", Colo: "ams", Listen: taken.String(), Keys: [][]byte{key(1)}, Siblings: none, Logger: slog.New(slog.DiscardHandler)}
		g, err := gossip.New(c)
		if err == nil {
			g.Close()
			t.Fatalf("%s: no error", network)
		}
		if !strings.Contains(err.Error(), taken.String()) || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: %v", network, err)
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	f("tcp", tcp.Addr())
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	f("udp", udp.LocalAddr())
}

// A member that is never run closes its sockets, and can be closed twice.
func TestCloseWithoutRun(t *testing.T) {
	t.Parallel()
	c := gossip.Config{Node: "ams-1", Boot: "b", Colo: "ams", Listen: "127.0.0.1:0", Keys: [][]byte{key(1)}, Siblings: none, Logger: slog.New(slog.DiscardHandler)}
	g, err := gossip.New(c)
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	g.Close()
	again, err := net.Listen("tcp", g.Address())
	if err != nil {
		t.Fatal("the port is still bound:", err)
	}
	again.Close()
}

// Settings that the library would refuse late, or panic at, are refused.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	f := func(want string, change func(*gossip.Config)) {
		t.Helper()
		c := gossip.Config{Node: "ams-1", Boot: "b", Colo: "ams", Listen: "127.0.0.1:0", Keys: [][]byte{key(1)}, Siblings: none, Logger: slog.New(slog.DiscardHandler)}
		change(&c)
		g, err := gossip.New(c)
		if err == nil {
			g.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f("no key", func(c *gossip.Config) { c.Keys = nil })
	f("gossip key 2 has 16 bytes", func(c *gossip.Config) { c.Keys = [][]byte{key(1), make([]byte, 16)} })
	f("cannot be the name of a member", func(c *gossip.Config) { c.Boot = "" })
	f("cannot be the name of a member", func(c *gossip.Config) { c.Node = "a#b" })
	f("colo", func(c *gossip.Config) { c.Colo = strings.Repeat("x", 300) })
	f("missing port", func(c *gossip.Config) { c.Listen = "127.0.0.1" })
}

// The address for siblings is the bound one, or the advertised host if all addresses are bound; without either there is none, and the
// member runs without taking part.
func TestAddress(t *testing.T) {
	t.Parallel()
	f := func(listen, advertise, want string) {
		t.Helper()
		c := gossip.Config{Node: "ams-1", Boot: "b", Colo: "ams", Listen: listen, Advertise: advertise, Keys: [][]byte{key(1)}, Siblings: none, Logger: slog.New(slog.DiscardHandler)}
		g, err := gossip.New(c)
		if err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(g.Address())
		if host != want || (want != "") != (port != "" && port != "0") {
			t.Errorf("listening on %q, advertising %q: %q", listen, advertise, g.Address())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	}
	f("127.0.0.1:0", "10.1.2.3", "127.0.0.1")
	f(":0", "127.0.0.1", "127.0.0.1")
	f("0.0.0.0:0", "ams-1.example", "ams-1.example")
	f(":0", "::1", "::1")
	f(":0", "", "")
	f(":0", "0.0.0.0", "")
}
