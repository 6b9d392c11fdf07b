package hops_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
	"colonnade/onebox"
)

// startSecure runs a farFleet whose nodes know each other by certificates.
func startSecure(t *testing.T) (*fleettest.SecureFleet, *farFleet) {
	t.Helper()
	s := fleettest.StartSecure(t, farConfig(fleettest.SteadyEngine(4)), farDocuments(noSpill), nil)
	f := &farFleet{Fleet: s.Fleet}
	f.WatchShared(48)
	f.served = f.Chat(chat(onward, 1, false)).Header.Get("x-request-id")
	return s, f
}

// postTLS sends a request with a token to ams, with the certificate of a node, and returns the status and the token's own error.
func postTLS(s *fleettest.SecureFleet, f *farFleet, uri string, token hop.Token) int {
	f.T.Helper()
	files := s.Node(uri)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		f.T.Fatal(err)
	}
	// The server is known by its URI, which crypto/tls does not compare.
	c, err := tls.Dial("tcp", f.Server("ams-1").Address, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}) //nolint:gosec // a test's client
	if err != nil {
		f.T.Fatal(err)
	}
	defer c.Close()
	signed := f.SignHop(token, hop.Binding{
		Audience: "ams/ams-1", Method: "POST", Target: fleettest.ChatPath, AppendHeader: fleettest.JSONHeader, Body: []byte(handMadeBody),
	}, time.Now())
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s: %s\r\n\r\n%s",
		fleettest.ChatPath, len(handMadeBody), hop.HeaderToken, signed, handMadeBody)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		f.T.Fatal(err)
	}
	defer r.Body.Close()
	return r.StatusCode
}

// With certificates, a token comes from the node that it names as its sender: from the entry if it has visited no server, and else from the
// last server on its path.
func TestTokensComeFromTheirSenders(t *testing.T) {
	t.Parallel()
	s, f := startSecure(t)
	const entry, fra, iad = "colonnade:entry/entry-1", "colonnade:colo/fra/fra-1", "colonnade:colo/iad/iad-1"
	foreign := "colonnade:entry/fra-1" // the name of a colo server, in the other role
	s.Node(foreign).Put(s.FleetCA, foreign, nil)
	check := func(want int, uri string, onward bool, visited ...string) {
		t.Helper()
		token := f.handMade()
		if onward {
			token = f.handMade("iad")
		}
		token.Visited = visited
		if status := postTLS(s, f, uri, token); status != want {
			t.Errorf("from %s after %q, with a stop: %v: %d, want %d", uri, visited, onward, status, want)
		}
	}
	check(200, entry, false)
	check(200, entry, true)
	check(200, fra, false, "fra/fra-1")
	check(200, fra, true, "fra/fra-1")
	check(403, fra, true)
	check(403, entry, true, "fra/fra-1")
	check(403, iad, false, "fra/fra-1")
	check(403, foreign, false, "fra/fra-1")
	check(403, foreign, false)
	check(403, fra, false, "fra/fra-2")
	check(403, fra, false, "iad/fra-1")
	check(200, iad, false, "fra/fra-1", "iad/iad-1")
}

// New certificates of all nodes, of a new authority after a time in which both are trusted, drop no request on its way over two colos.
func TestCertificatesRotateOverTwoHops(t *testing.T) {
	t.Parallel()
	s, f := startSecure(t)
	var held []*fleettest.SecureConn
	for range 4 {
		held = append(held, s.BeginChatTLS(chat("only-ams", 1<<20, false)))
	}
	testkit.WaitFor(t, "the slots of ams to be taken", func() bool { return fleettest.InFlight(f.Engine("ams")) == 4 })
	load := f.Drive(3, func(n int) string { return chat(both[n%2], 1+n%5, n%3 != 0) })
	// A node reads its files when it uses them and has not read them for a second, so a rotation waits for longer than that after each step.
	takeEffect := func() {
		time.Sleep(2 * time.Second)
		load.WaitServed(10)
	}
	load.WaitServed(10)
	next := tlstest.NewCA(t, "next fleet")
	for _, files := range s.Nodes {
		files.Trust(s.FleetCA, next)
	}
	takeEffect()
	for uri, files := range s.Nodes {
		files.Put(next, uri, nil)
	}
	takeEffect()
	for _, files := range s.Nodes {
		files.Trust(next)
	}
	takeEffect()
	load.Check()
	for _, c := range held {
		c.Close()
	}
	f.freeSoon("ams", "fra")
}

// The keys of the fleet rotate by restarts of one server after the other, under load and over two colos, and drop nothing: while some sign
// with the old key and some with the new one, all verify both.
func TestKeysRotateOverTwoHops(t *testing.T) {
	t.Parallel()
	key := func(n byte) []byte {
		k := make([]byte, hop.KeySize)
		for i := range k {
			k[i] = n
		}
		return k
	}
	keys := func(all ...[]byte) *hop.Keys {
		k, err := hop.NewKeys(all...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	before, after := keys(key(1), key(2)), keys(key(2), key(1))
	started := map[string]int{}
	config := farConfig(fleettest.SteadyEngine(4))
	config.Drain = testkit.Timeout                // no request of the load takes as long
	config.KeysOf = func(node string) *hop.Keys { // one node after the other starts
		if started[node]++; started[node] > 1 {
			return after
		}
		return before
	}
	f := &farFleet{Fleet: fleettest.Start(t, config, farDocuments(noSpill))}
	// The streams that fill the first colo move with its restart, and the load must go on from there before and after.
	fill := func() (release func()) {
		f.Keys = before
		f.served = f.Chat(chat(onward, 1, false)).Header.Get("x-request-id")
		return f.fill("ams")
	}
	release := fill()
	load := f.Drive(3, func(n int) string { return chat(both[n%2], 1+n%5, n%3 != 0) })
	load.WaitServed(10)
	restart := func(colo string) {
		f.EndNode(colo + "-1")()
		f.StartServer(colo, colo+"-1")
		load.WaitServed(15)
	}
	restart("fra")
	restart("iad")
	release()
	restart("ams")
	release = fill()
	load.WaitServed(15)
	load.Check()
	release()
	if f.Proxy(onebox.EntryPlace, "ams-1") == nil {
		t.Error("no proxy leads to the server that has started again")
	}
}
