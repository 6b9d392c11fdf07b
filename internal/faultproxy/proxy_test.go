package faultproxy_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/faultproxy"
	"colonnade/internal/testkit"
)

// Without faults, bytes and the end of each direction pass, one after the other.
func TestPasses(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, d := range []time.Duration{0, time.Millisecond} {
		f.Delay(d)
		client, server := f.connect()
		client.send("question")
		server.wantBytes("question")
		_ = client.CloseWrite()
		if got := server.wantEnd(); got != "" {
			t.Errorf("the server received %q", got)
		}
		server.send("answer")
		client.wantBytes("answer")
		server.Close()
		client.wantEnd()
	}
}

// An RST of one end is one for the other.
func TestPassesResets(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	_ = client.SetLinger(0)
	client.Close()
	server.wantReset()
	client, server = f.connect()
	_ = server.SetLinger(0)
	server.Close()
	client.wantReset()
}

// A sender learns that the receiver has closed its connection, also after a half-close.
func TestReceiverHasGone(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	server.send("early answer")
	server.Close()
	client.wantBytes("early answer")
	client.wantEnd()
	testkit.WaitFor(t, "the client to get an error", func() bool {
		_, err := client.Write([]byte("more"))
		return err != nil
	})
}

// A client of a server that does not listen is reset.
func TestServerIsDown(t *testing.T) {
	t.Parallel()
	down := start(t)
	down.Close()
	p, err := faultproxy.Listen("127.0.0.1:0", down.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Address)
	if err == nil {
		newEnd(t, c).wantReset()
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

func TestStall(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	f.Inject(faultproxy.Fault{Kind: faultproxy.Stall})
	other, otherServer := f.connect()
	for _, e := range []*end{client, other} {
		e.send("held")
		_ = e.CloseWrite()
	}
	server.wantSilence()
	otherServer.wantSilence()
	f.Heal()
	for _, e := range []*end{server, otherServer} {
		if got := e.wantEnd(); got != "held" {
			t.Errorf("after the stall: %q", got)
		}
	}
	server.send("answer")
	client.wantBytes("answer")
}

// A stall of one direction, after so many bytes of it, leaves the other.
func TestStallAtByte(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	f.Inject(faultproxy.Fault{Kind: faultproxy.Stall, Way: faultproxy.ToClient, At: 5})
	server.send("01234567")
	client.wantBytes("01234")
	client.wantSilence()
	client.send("question")
	server.wantBytes("question")
	f.Heal()
	client.wantBytes("567")
}

// While a connection is stalled, the proxy takes little more than the kernel does.
func TestStallStopsTheSender(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, _ := f.connect()
	_ = client.SetWriteBuffer(64 << 10)
	f.Inject(faultproxy.Fault{Kind: faultproxy.Stall})
	_ = client.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := client.Write(make([]byte, 64<<20)); err == nil || n > 16<<20 {
		t.Errorf("%d bytes were sent, %v", n, err)
	}
}

// Swallowed bytes and ends are lost, connections from before and new ones stay open, and Heal closes them.
func TestSwallow(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	leaving, left := f.connect()
	f.Swallow()
	late := f.dial()
	client.send("lost")
	late.send("lost")
	leaving.Close()
	server.wantSilence()
	left.wantSilence()
	client.wantSilence()
	late.wantSilence()
	f.Heal()
	for _, e := range []*end{client, server, left} {
		if got := e.wantEnd(); got != "" {
			t.Errorf("received %q", got)
		}
	}
	testkit.WaitFor(t, "the end of the new connection", func() bool {
		_, err := late.Write([]byte("x"))
		return err != nil
	})
	client, server = f.connect()
	client.send("passes")
	server.wantBytes("passes")
}

// After HealQuietly, connections that have lost bytes are mute until one of their ends closes them.
func TestHealQuietly(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	leaving, left := f.connect()
	f.Swallow()
	leaving.Close()
	left.wantSilence()
	f.HealQuietly()
	left.wantEnd()
	client.send("lost")
	server.wantSilence()
	client.Close()
	server.wantEnd()
	client, server = f.connect()
	client.send("passes")
	server.wantBytes("passes")
}

// A fault of the next connection is none of others, and each call is for one connection.
func TestNextConnection(t *testing.T) {
	t.Parallel()
	f := start(t)
	before, beforeServer := f.connect()
	f.InjectNext(faultproxy.Fault{Kind: faultproxy.Reset, Way: faultproxy.ToServer, At: 3})
	f.InjectNext(faultproxy.Fault{Kind: faultproxy.HalfClose, Way: faultproxy.ToServer, At: 4})
	first, firstServer := f.connect()
	second, secondServer := f.connect()
	third, thirdServer := f.connect()
	for _, e := range []*end{before, first, second, third} {
		e.send("012345")
	}
	if got := firstServer.wantReset(); got != "012" {
		t.Errorf("before the reset: %q", got)
	}
	first.wantReset()
	if got := secondServer.wantEnd(); got != "0123" {
		t.Errorf("before the half-close: %q", got)
	}
	secondServer.send("answer")
	second.wantBytes("answer")
	beforeServer.wantBytes("012345")
	thirdServer.wantBytes("012345")
}

// Faults of open connections leave those that come later.
func TestOpenConnections(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	f.InjectOpen(faultproxy.Fault{Kind: faultproxy.Reset})
	client.wantReset()
	server.wantReset()
	client, server = f.connect()
	client.send("passes")
	server.wantBytes("passes")
}

// A connection is cut at an exact byte, with a FIN for both ends, although one of them goes on sending.
func TestCut(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.Inject(faultproxy.Fault{Kind: faultproxy.Cut, Way: faultproxy.ToClient, At: 100_000})
	client, server := f.connect()
	client.send("question")
	server.wantBytes("question")
	server.send(strings.Repeat("x", 8<<20))
	if got := client.wantEnd(); len(got) != 100_000 {
		t.Errorf("%d bytes passed", len(got))
	}
	server.wantEnd()
}

// Bytes drip at their rate, and the rest comes at once after Heal.
func TestDrip(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	f.Inject(faultproxy.Fault{Kind: faultproxy.Drip, Way: faultproxy.ToServer, Rate: 1000})
	began := time.Now()
	client.send(strings.Repeat("x", 100_000))
	server.wantBytes(strings.Repeat("x", 100))
	if took := time.Since(began); took < 90*time.Millisecond {
		t.Errorf("100 bytes at 1000 a second took %v", took)
	}
	server.send("answer")
	client.wantBytes("answer")
	f.Heal()
	server.wantBytes(strings.Repeat("x", 99_900))
}

// Refused connections fail at once; those from before pass on.
func TestRefuse(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	f.Refuse()
	if c, err := net.Dial("tcp", f.Address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, %v", c, err)
	}
	client.send("passes")
	server.wantBytes("passes")
	f.Heal()
	testkit.WaitFor(t, "the proxy to listen", func() bool {
		c, err := net.Dial("tcp", f.Address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// Close ends connections in any state.
func TestClose(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, fault := range []faultproxy.Fault{
		{Kind: faultproxy.Stall}, {Kind: faultproxy.Swallow, Way: faultproxy.ToServer}, {Kind: faultproxy.Drip, Rate: 1},
		{Kind: faultproxy.Slow, Delay: time.Hour}, {Kind: faultproxy.HalfClose, Way: faultproxy.ToServer},
	} {
		f.InjectNext(fault)
		client, _ := f.connect()
		_, _ = client.Write(make([]byte, 1<<20))
	}
	f.Swallow()
	f.dial()
	f.Close()
	f.Close()
	f.Heal()
	if c, err := net.Dial("tcp", f.Address); err == nil {
		c.Close()
		t.Error("the proxy still listens")
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, fault := range []faultproxy.Fault{{}, {Kind: "lost"}, {Kind: faultproxy.Drip}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic for %+v", fault)
				}
			}()
			f.Inject(fault)
		}()
	}
}
