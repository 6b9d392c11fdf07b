package etcd

import (
	"fmt"
	"testing"
	"time"
)

const (
	activeServer   = "{address: 'h:1', boot: b}"
	drainingServer = "{address: 'h:1', boot: b, state: draining}"
)

// wantServers checks which servers of ams are in force.
func (b *stateTest) wantServers(after time.Duration, want ...string) {
	b.t.Helper()
	var got []string
	for _, s := range b.after(after).Servers("ams") {
		got = append(got, s.Node)
	}
	b.want(fmt.Sprintf("servers after %v", after), got, want)
}

func TestSuspectServer(t *testing.T) {
	b := newStateTest(t)
	b.write("servers/ams/a", activeServer, true)
	b.wantServers(0, "a")
	b.erase("servers/ams/a")
	b.wantServers(0, "a")
	b.want("suspect", b.after(0).ExpiredLeases, []string{"servers/ams/a"})
	if b.expiry != b.now.Add(serverGrace) {
		t.Errorf("expires at %v, want in %v", b.expiry, serverGrace)
	}
	b.wantServers(serverGrace-time.Millisecond, "a")
	if b.due(b.now) {
		t.Error("a table is due before the grace is over")
	}
	b.now = b.now.Add(time.Millisecond)
	if !b.due(b.now) {
		t.Error("no table is due when the grace is over")
	}
	b.wantServers(0)
	if len(b.after(0).ExpiredLeases) > 0 || len(b.known) > 0 {
		t.Errorf("suspect %q", b.after(0).ExpiredLeases)
	}
}

// It registers again in time, also with the very same document.
func TestSuspectServerComesBack(t *testing.T) {
	b := newStateTest(t)
	b.write("servers/ams/a", activeServer, true)
	b.wantServers(0, "a")
	b.erase("servers/ams/a")
	b.wantServers(time.Second, "a")
	b.write("servers/ams/a", activeServer, true)
	b.want("suspect", b.after(0).ExpiredLeases, nil)
	b.wantServers(10*serverGrace, "a")
}

func TestSuspectServerIsReplaced(t *testing.T) {
	f := func(key, value string, want ...string) {
		t.Helper()
		b := newStateTest(t)
		b.write("servers/ams/a", activeServer, true)
		b.wantServers(0, "a")
		b.erase("servers/ams/a")
		b.wantServers(0, "a")
		b.write(key, value, true)
		b.wantServers(0, want...)
	}
	f("servers/ams/b", activeServer, "b")
	f("servers/ams/b", drainingServer, "a", "b")
	f("servers/ams-2/b", activeServer, "a")
}

// A server that has said that it drains goes at once, also when both come together; and so does one that somebody put by hand.
func TestLeftServer(t *testing.T) {
	f := func(value string, leased bool) {
		t.Helper()
		b := newStateTest(t)
		b.write("servers/ams/a", activeServer, leased)
		b.wantServers(0, "a")
		b.write("servers/ams/a", value, leased)
		b.erase("servers/ams/a")
		b.wantServers(0)
	}
	f(drainingServer, true)
	f(activeServer, false)
}

// While the store is away, nobody can register: the grace begins when it is back.
func TestGraceAfterOutage(t *testing.T) {
	b := newStateTest(t)
	b.write("servers/ams/a", activeServer, true)
	b.wantServers(0, "a")
	b.erase("servers/ams/a")
	b.wantServers(0, "a")
	b.now = b.now.Add(time.Hour)
	b.restartGrace(b.now)
	b.wantServers(serverGrace/2, "a")
	b.wantServers(serverGrace / 2)
}

// A node that starts believes the store, not what it has saved of others' leases.
func TestNoSuspectsAtStart(t *testing.T) {
	b := newStateTest(t)
	b.restore(cachedDocument{Key: "servers/ams/a", Value: []byte(activeServer), Revision: 3, Leased: true}, b.now)
	b.erase("servers/ams/a")
	b.wantServers(0)
}

func endpoint(host string, concurrency int) string {
	return fmt.Sprintf("{url: 'http://%s', pool: p, concurrency: %d}", host, concurrency)
}

func (b *stateTest) wantEndpoints(want ...string) {
	b.t.Helper()
	var got []string
	for _, e := range b.after(0).EndpointsOf("ams") {
		got = append(got, e.ID)
	}
	b.want("endpoints", got, want)
}

func TestSuspectEndpoint(t *testing.T) {
	b := newStateTest(t)
	b.write("endpoints/ams/a", endpoint("a", 4), true)
	b.write("endpoints/ams/b", endpoint("b", 4), true)
	b.write("endpoints/ams/c", endpoint("c", 4), false)
	b.write("endpoints/ams/d", endpoint("d", 0), true)
	b.wantEndpoints("a", "b", "c", "d")
	b.erase("endpoints/ams/a", "endpoints/ams/b", "endpoints/ams/c", "endpoints/ams/d")
	b.wantEndpoints("a", "b") // an operator's goes at once, and so does one that takes no requests
	b.now = b.now.Add(24 * time.Hour)
	b.wantEndpoints("a", "b")
	if !b.expiry.IsZero() {
		t.Error("a suspect endpoint expires")
	}
	b.write("endpoints/ams/b", endpoint("b", 4), true)
	b.dropDead([]string{"endpoints/ams/a", "endpoints/ams/b", "endpoints/ams/x"}, b.now)
	b.wantEndpoints("b") // no suspect any more
	b.want("suspect", b.after(0).ExpiredLeases, nil)
}

// What is registered under a suspect's URL is in force at once, whichever name comes first.
func TestSuspectEndpointIsDisplaced(t *testing.T) {
	f := func(other string) {
		t.Helper()
		b := newStateTest(t)
		b.write("endpoints/ams/m", endpoint("h", 4), true)
		b.wantEndpoints("m")
		b.erase("endpoints/ams/m")
		b.wantEndpoints("m")
		b.write("endpoints/ams/"+other, endpoint("h", 4), true)
		b.wantEndpoints(other)
		if conflicts := b.after(0).Conflicts; len(conflicts) > 0 {
			t.Errorf("conflicts %+v", conflicts)
		}
	}
	f("a")
	f("z")
}
