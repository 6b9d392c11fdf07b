package capacity_test

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
)

// The most memory, in bytes, that a waiting request with a small body takes, with its connections but without the kernel's
// part of them. permits/doc.go names the same.
const (
	waiterWithConn     = 44 << 10 // in a colo, of a node that gives the request a connection of its own
	waiterThroughEntry = 44 << 10 // in the entry with its client's connection, and in the colo, over a link
)

// Waiting requests take at most the stated memory, and give it back. Over a link, they hold no goroutine in the colo.
func TestMemoryOfWaiters(t *testing.T) {
	const slots = 2
	waiting := testkit.AtScale(400, 2000)
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(slots)), fmt.Sprintf("key: pools/demo\nqueue: {limit: %d, per_account: %d, max_wait: 5m}", 2*waiting, 2*waiting))
	f.Watch(2*waiting + 2*slots) // fasthttp keeps their goroutines for some seconds
	blockers := f.BlockSlots(slots)
	body := fleettest.ChatBody(1, false)
	token := func() string {
		return "x-colonnade-hop: " + f.SignHop(hop.Token{
			RequestID: "0123456789abcdef0123456789abcdef", Source: "entry-1", Account: "anonymous", Weight: 1, Priority: "standard",
			Model: "demo-chat", HopsLeft: 1, Wait: hop.WaitFull, Total: hop.Millis(time.Hour),
		}, hop.Binding{
			Audience: f.Colos[0].Node, Method: "POST", Target: fleettest.ChatPath, AppendHeader: fleettest.JSONHeader, Body: []byte(body),
		}, time.Now()) + "\r\n"
	}
	atColo, peers := enqueue(f, waiting, f.Colos[0].Address, body, token)
	before := runtime.NumGoroutine()
	both, clients := enqueue(f, waiting, f.Entry.Address, body, func() string { return "" })
	t.Logf("a waiting request takes %d bytes in a colo with its connection, and %d in an entry and over a link", atColo, both)
	larger := 0
	if testkit.Race() {
		larger = 8 << 10 // larger frames need a stack of the next size
	}
	if atColo > waiterWithConn+larger || both > waiterThroughEntry+larger {
		t.Errorf("a waiting request takes %d bytes in a colo with its connection, and %d in an entry and over a link, want at most %d and %d",
			atColo, both, waiterWithConn, waiterThroughEntry)
	}
	testkit.WaitFor(t, "the requests over a link to have no goroutine but that of their client's connection", func() bool {
		return runtime.NumGoroutine()-before <= waiting+waiting/4 // workers of the colo that are idle end after a while
	})
	for _, c := range append(peers, clients...) {
		c.Close()
	}
	testkit.Within(t, time.Second, "the cancelled requests to be out of the queue", func() bool { return f.Pool("ams", "demo").Queued == 0 })
	fleettest.ServeAll(t, blockers, nil)
}

// enqueue sends n requests that wait, and returns how many bytes each takes in this process. Of a client, which is in the same
// process, that is a bare connection.
func enqueue(f *fleettest.Fleet, n int, address, body string, lines func() string) (each int, clients []net.Conn) {
	f.T.Helper()
	const head = "POST " + fleettest.ChatPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	before, queued := fleettest.LiveBytes(), f.Pool("ams", "demo").Queued
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			f.T.Fatal(err)
		}
		f.T.Cleanup(func() { c.Close() })
		if _, err := fmt.Fprintf(c, "%s%sContent-Length: %d\r\n\r\n%s", head, lines(), len(body), body); err != nil {
			f.T.Fatal(err)
		}
		clients = append(clients, c)
	}
	testkit.WaitFor(f.T, "the requests to wait", func() bool { return f.Pool("ams", "demo").Queued == queued+n })
	return int(fleettest.LiveBytes()-before) / n, clients
}
