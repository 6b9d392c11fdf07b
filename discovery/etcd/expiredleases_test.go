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
func (s *stateTest) wantServers(after time.Duration, want ...string) {
	s.t.Helper()
	var got []string
	for _, s := range s.after(after).Servers("ams") {
		got = append(got, s.Node)
	}
	s.want(fmt.Sprintf("servers after %v", after), got, want)
}

// A server that registers again stays, also with the same document.
func TestServerRegistersAgain(t *testing.T) {
	s := newStateTest(t)
	s.write("servers/ams/a", activeServer, true)
	s.wantServers(0, "a")
	s.erase("servers/ams/a")
	s.wantServers(time.Second, "a")
	s.write("servers/ams/a", activeServer, true)
	s.want("expired leases", s.after(0).ExpiredLeases, nil)
	s.wantServers(time.Hour, "a")
}

// A draining server goes at once, also when both changes are seen together; and so does one that an operator put.
func TestDrainingServerGoesAtOnce(t *testing.T) {
	f := func(value string, leased bool) {
		t.Helper()
		s := newStateTest(t)
		s.write("servers/ams/a", activeServer, leased)
		s.wantServers(0, "a")
		s.write("servers/ams/a", value, leased)
		s.erase("servers/ams/a")
		s.wantServers(0)
	}
	f(drainingServer, true)
	f(activeServer, false)
}

// A node that starts believes the store, and not the leases in its cache file.
func TestExpiredLeaseAtStart(t *testing.T) {
	s := newStateTest(t)
	s.restore(cachedDocument{Key: "servers/ams/a", Value: []byte(activeServer), Revision: 3, Leased: true}, s.now)
	s.erase("servers/ams/a")
	s.wantServers(0)
}

func endpoint(host string, concurrency int) string {
	return fmt.Sprintf("{url: 'http://%s', pool: p, concurrency: %d}", host, concurrency)
}

func (s *stateTest) wantEndpoints(want ...string) {
	s.t.Helper()
	var got []string
	for _, e := range s.after(0).EndpointsOf("ams") {
		got = append(got, e.ID)
	}
	s.want("endpoints", got, want)
}

// An endpoint whose lease expired stays until it is marked dead. Those of operators, those of concurrency 0 and draining ones go at once.
func TestEndpointStaysUntilMarkedDead(t *testing.T) {
	s := newStateTest(t)
	s.write("endpoints/ams/a", endpoint("a", 4), true)
	s.write("endpoints/ams/b", endpoint("b", 4), true)
	s.write("endpoints/ams/c", endpoint("c", 4), false)
	s.write("endpoints/ams/d", endpoint("d", 0), true)
	s.write("endpoints/ams/e", "{url: 'http://e', pool: p, concurrency: 4, state: draining}", true)
	s.wantEndpoints("a", "b", "c", "d", "e")
	s.erase("endpoints/ams/a", "endpoints/ams/b", "endpoints/ams/c", "endpoints/ams/d", "endpoints/ams/e")
	s.wantEndpoints("a", "b")
	s.now = s.now.Add(24 * time.Hour)
	s.wantEndpoints("a", "b")
	s.write("endpoints/ams/b", endpoint("b", 4), true)
	s.dropDead([]string{"endpoints/ams/a", "endpoints/ams/b", "endpoints/ams/x"}, "it does not answer", s.now)
	s.wantEndpoints("b") // it has a lease again
	s.want("expired leases", s.after(0).ExpiredLeases, nil)
}

// An endpoint whose lease expired goes when its URL is registered anew, whichever name comes first.
func TestEndpointIsReplacedByItsURL(t *testing.T) {
	f := func(other string) {
		t.Helper()
		s := newStateTest(t)
		s.write("endpoints/ams/m", endpoint("h", 4), true)
		s.wantEndpoints("m")
		s.erase("endpoints/ams/m")
		s.wantEndpoints("m")
		s.write("endpoints/ams/"+other, endpoint("h", 4), true)
		s.wantEndpoints(other)
		if conflicts := s.after(0).Conflicts; len(conflicts) > 0 {
			t.Errorf("conflicts %+v", conflicts)
		}
	}
	f("a")
	f("z")
}

// A server whose lease expired stays until it is marked dead, and is not registered meanwhile.
func TestServerStaysUntilMarkedDead(t *testing.T) {
	s := newStateTest(t)
	wantRegistered := func(want ...string) {
		t.Helper()
		var got []string
		for _, server := range s.after(0).Registered("ams") {
			got = append(got, server.Node)
		}
		s.want("registered servers", got, want)
	}
	s.write("servers/ams/a", activeServer, true)
	wantRegistered("a")
	s.erase("servers/ams/a")
	s.wantServers(0, "a")
	s.want("expired leases", s.after(0).ExpiredLeases, []string{"servers/ams/a"})
	if s.wantServers(time.Hour, "a"); s.changed {
		t.Error("a table is due for a server that stays")
	}
	wantRegistered()
	s.write("servers/ams/a", activeServer, true)
	s.dropDead([]string{"servers/ams/a"}, "it does not answer", s.now)
	wantRegistered("a") // it has a lease again
	s.erase("servers/ams/a")
	wantRegistered()
	s.dropDead([]string{"servers/ams/a"}, "it does not answer", s.now)
	s.wantServers(0)
	if len(s.after(0).ExpiredLeases) > 0 || len(s.known) > 0 {
		t.Errorf("expired leases %q", s.after(0).ExpiredLeases)
	}
}

// Each change of a server's document counts as a change of its colo's servers, also one that changes nothing else.
func TestRevisionOfServers(t *testing.T) {
	s := newStateTest(t)
	want := func(colo string, want int64) {
		t.Helper()
		if got := s.after(0).ServersRevision(colo); got != want {
			t.Errorf("the servers of %s have changed at %d, want %d", colo, got, want)
		}
	}
	write := func(key string) int64 {
		revision := s.write(key, activeServer, true)
		s.noteRevision(key, revision)
		return revision
	}
	want("ams", 0)
	ams := write("servers/ams/a")
	fra := write("servers/fra/a")
	s.noteRevision("models/ams/x", 99)
	want("ams", ams)
	want("fra", fra)
	again := write("servers/ams/a")
	if !s.changed {
		t.Error("no table is due")
	}
	want("ams", again)
	s.noteRevision("servers/ams/a", s.erase("servers/ams/a"))
	want("ams", again+1)
	s.clampRevision(2)
	want("ams", 2)
}
