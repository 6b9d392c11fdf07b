package capacity_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
)

// The most memory, in bytes, that a waiting request with a small body takes, with its connections but without the kernel's
// part of them. permits/doc.go names the same.
const (
	waiterAtColo  = 48 << 10
	waiterAtEntry = 64 << 10 // in addition
)

// Waiting requests take at most the stated memory at each node, and give it back.
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
	both, clients := enqueue(f, waiting, f.Entry.Address, body, func() string { return "" })
	t.Logf("a waiting request takes %d bytes in a colo server, and %d in an entry", atColo, both-atColo)
	most := waiterAtColo + waiterAtEntry
	if testkit.Race() {
		most += 8 << 10 // its larger frames need a stack of the next size
	}
	if atColo > waiterAtColo || both > most {
		t.Errorf("a waiting request takes %d bytes in a colo server and %d there and in an entry, want at most %d and %d",
			atColo, both, waiterAtColo, most)
	}
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
