package siblings_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// ask sends a short request for a model through an entry, and fails the test unless it is served.
func ask(t *testing.T, entry *proctest.Node, model string) {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[]}`, model)
	if status, _, text := testkit.Post("http://"+entry.Address+"/v1/chat/completions", body); status != http.StatusOK {
		t.Errorf("%s: %s got %d %s", entry.Name, model, status, text)
	}
}

// A request is served although it is moved twice: an entry with an old table sends it to a server that drains, whose own table
// is too old to know that the next one drains, too. That one names a server that has joined since, which the entry does not know; the next
// by rank of those that it knows is not asked.
func TestMovedTwice(t *testing.T) {
	t.Parallel()
	s := &stage{Fleet: proctest.Start(t, proctest.Config{Servers: servers, Entries: 2, Drain: 20 * time.Second, ITL: 20 * time.Millisecond})}
	pool := s.Pools()[0]
	ranked := rank(pool, s.running())
	first, second := s.Server(ranked[0]), s.Server(ranked[1])

	s.Entries[1].CutEtcd()
	joined := s.StartServer(nameAfter(pool, ranked[:2], ranked[2]))
	joined.WaitReady()
	waitServers(t, s.Entries[0], servers+1)

	streams := s.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Long: 1}, LongTokens: 400, Requests: 1}) // keep it from ending
	testkit.WaitFor(t, "a stream to run", func() bool { return s.Engines[0].Stats().Running == 1 })
	first.Terminate()
	waitServers(t, s.Entries[0], servers)
	waitServers(t, second, servers)
	testkit.WaitFor(t, "the second server to grant", func() bool { ask(t, s.Entries[0], pool); return s.served()[second.Name] > 0 })
	first.CutEtcd()

	more := s.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Long: 1}, LongTokens: 300, Requests: 1})
	testkit.WaitFor(t, "a stream to run", func() bool { return s.Engines[0].Stats().Running == 2 })
	second.Terminate()
	waitServers(t, s.Entries[0], servers-1)
	waitServers(t, joined, servers-1)
	before := s.served()
	for range 5 {
		ask(t, s.Entries[1], pool)
	}
	if got := s.served()[joined.Name] - before[joined.Name]; got != 5 {
		t.Errorf("%s served %d of 5 requests", joined.Name, got)
	}
	if first.Ended() || second.Ended() {
		t.Error("a server ended before the requests were sent")
	}
	first.HealEtcd()
	s.Entries[1].HealEtcd()
	results := append(streams.Stop(), more.Stop()...)
	results.Check(t)
	s.Settle()
	s.CheckPeaks()
}

// nameAfter returns a name of a server that ranks right after some, and before the next one.
func nameAfter(pool string, some []string, next string) string {
	for i := servers + 1; ; i++ {
		name := fmt.Sprintf("%s-%d", proctest.Colo, i)
		if ranked := rank(pool, slices.Concat(some, []string{name, next})); ranked[len(some)] == name {
			return name
		}
	}
}

// An entry that is cut off from etcd sends requests to a server that has joined since, and is the home of their pool: the server that it asks
// says where that one is.
func TestHomeThatACutOffEntryDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := &stage{Fleet: proctest.Start(t, proctest.Config{Entries: 2})}
	pool, cutOff := s.Pools()[0], s.Entries[1]
	ask(t, cutOff, pool)
	cutOff.CutEtcd()
	joined := s.join(s.newHome())
	waitServers(t, s.Entries[0], 2)
	testkit.WaitFor(t, "the server that has joined to serve", func() bool { ask(t, s.Entries[0], pool); return s.served()[joined.Name] > 0 })
	before := s.served()
	for range 5 {
		ask(t, cutOff, pool)
	}
	if got := s.served()[joined.Name] - before[joined.Name]; got != 5 {
		t.Errorf("%s served %d of 5 requests", joined.Name, got)
	}
	if names := cutOff.ActiveServers(); len(names) != 1 {
		t.Errorf("the entry has learned from etcd: %q", names)
	}
	cutOff.HealEtcd()
	waitServers(t, cutOff, 2)
	s.CheckPeaks()
}

// waitServers waits until a node knows so many active servers.
func waitServers(t *testing.T, n *proctest.Node, want int) {
	t.Helper()
	testkit.WaitFor(t, fmt.Sprintf("%s to know %d servers", n.Name, want), func() bool { return len(n.ActiveServers()) == want })
}

// Beside a server of an older version, which shares no engines, a new server grants nothing and says so. It grants once the
// older one has gone.
func TestServerBesideOlderVersion(t *testing.T) {
	t.Parallel()
	f := proctest.Start(t, proctest.Config{})
	client := f.Etcd.Client(t)
	lease, err := client.Grant(t.Context(), 120)
	if err != nil {
		t.Fatal(err)
	}
	old := fmt.Sprintf("{address: %q, boot: b, state: active, protocol: {min: 1, max: 2}}", testkit.Unreachable(t))
	if _, err := client.Put(t.Context(), etcd.DefaultPrefix+"servers/"+proctest.Colo+"/older", old, clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the server to say that it grants nothing", func() bool {
		status, page := f.Servers[0].Get("/health/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(page, "older")
	})
	if _, err := client.Revoke(t.Context(), lease.ID); err != nil {
		t.Fatal(err)
	}
	f.WaitReady()
	ask(t, f.Entries[0], f.Pools()[0])
}
