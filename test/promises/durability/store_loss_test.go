package durability_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/internal/etcdtest"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// startFleetAt runs a fleet on an etcd of its own, which the test can stop.
func startFleetAt(t testing.TB, store *etcdtest.Server, c onebox.Config, documents string) *fleettest.Fleet {
	c.EtcdURL = "http://" + store.Address
	return fleettest.Start(t, c, documents)
}

// expectIdle expects that nothing is held or queued any more, and that each node finds its own state correct. It replaces the
// oracle where the connections to etcd come and go.
func expectIdle(f *fleettest.Fleet) {
	f.T.Helper()
	testkit.WaitFor(f.T, "the fleet to be idle", func() bool {
		for _, n := range f.Colos {
			for _, p := range f.Pools(n.Colo) {
				if p.Held+p.Queued > 0 {
					return false
				}
			}
		}
		return true
	})
	for name, admin := range f.Admins() {
		r, err := f.Client.Get("http://" + admin + "/debug/check")
		if err != nil {
			f.T.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			f.T.Errorf("%s: %d %s", name, r.StatusCode, text)
		}
	}
}

// registered returns the keys in etcd below servers/ and entries/, with the revision at which each was created.
func registered(o *fleettest.Operator) map[string]int64 {
	o.F.T.Helper()
	all := map[string]int64{}
	for _, kind := range []string{"servers/", "entries/"} {
		for _, kv := range o.Get(node.Prefix+kind, clientv3.WithPrefix()).Kvs {
			all[strings.TrimPrefix(string(kv.Key), node.Prefix)] = kv.CreateRevision
		}
	}
	return all
}

// youngestConfig returns the smallest age of a node's configuration.
func youngestConfig(f *fleettest.Fleet) time.Duration {
	youngest := time.Hour
	for _, admin := range f.Admins() {
		age := time.Duration(f.Metric(admin, "colonnade_config_age_seconds") * float64(time.Second))
		youngest = min(youngest, age)
	}
	return youngest
}

// changeSlots gives each engine another number of slots. Each server then puts a document within a second.
func changeSlots(f *fleettest.Fleet, slots int) {
	f.T.Helper()
	var documents []string
	for _, e := range f.Engines {
		documents = append(documents, fmt.Sprintf("key: endpoints/%s/%s\nurl: %s\npool: demo\nconcurrency: %d\n", e.Colo, e.ID, e.URL, slots))
	}
	f.Operator().Put(strings.Join(documents, "---\n"))
	testkit.WaitFor(f.T, "the engines to have their new slots", func() bool {
		return !slices.ContainsFunc(f.Engines, func(e onebox.EngineNode) bool { return f.Pool(e.Colo, "demo").Limit != slots })
	})
}

// notGranting returns a colo server that may not grant; "" if all may.
func notGranting(f *fleettest.Fleet) string {
	for _, c := range f.Colos {
		if f.Metric(c.Admin, "colonnade_grants_enabled") != 1 {
			return c.Node
		}
	}
	return ""
}

// While etcd is away for longer than any lease, no server that is alone stops granting, no request fails, and the age of the
// nodes' configuration rises. When it is back, all nodes are registered and follow changes again.
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	outage := 7 * time.Second
	if testkit.Soak() {
		outage = time.Minute
	}
	store := etcdtest.Start(t)
	f := startFleetAt(t, store, onebox.Config{Engine: fleettest.SlowEngine(8)}, "")
	c := f.Drive(1, fleettest.AlternatingBodies("demo-chat"))
	stream := f.LongStream("demo-chat")
	changeSlots(f, 7) // the servers put their documents while etcd goes away, just before they renew their leases
	store.Stop()
	stopped := time.Now()
	last, slowest, suspended := stopped, time.Duration(0), ""
	testkit.WaitFor(t, "the age of every configuration to rise", func() bool {
		time.Sleep(100 * time.Millisecond)
		if server := notGranting(f); server != "" {
			suspended = server
		}
		slowest, last = max(slowest, time.Since(last)), time.Now()
		return youngestConfig(f) >= outage
	})
	if suspended != "" && slowest < time.Second { // a process that stands still for seconds must not grant when it goes on
		t.Errorf("%s has stopped granting, although it is alone and etcd is away for all", suspended)
	}
	if took := time.Since(stopped); took < outage-2*time.Second {
		t.Errorf("%v after etcd has stopped, every configuration is said to be older than %v", took, outage)
	}
	stream.ExpectProperEnd()
	store.Restart(t)
	o := f.Operator()
	o.Put("key: models/after\npool: demo\nupstream_name: demo-chat")
	began := time.Now()
	testkit.Within(t, 5*time.Second, "all nodes to follow etcd again", func() bool {
		for _, admin := range f.Admins() {
			if f.FleetPage(admin).Documents["models/after"] == nil {
				return false
			}
		}
		return youngestConfig(f) < outage
	})
	t.Logf("converged %v after etcd was back", time.Since(began).Round(time.Millisecond))
	testkit.Within(t, 5*time.Second, "all nodes to be registered", func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(registered(o))), []string{"entries/entry-1", "servers/ams/ams-1", "servers/fra/fra-1"})
	})
	if a := f.Chat(`{"model":"after","max_tokens":1,"messages":[]}`); a.Status != 200 {
		t.Errorf("a model that came after the outage: %d %q", a.Status, a.Body)
	}
	c.Check()
	expectIdle(f)
}

// When the store comes back empty, with revisions that begin anew, the documents stay in force and requests are served, until the
// documents are put again.
func TestStoreReplacedByEmptyOne(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t)
	f := startFleetAt(t, store, onebox.Config{Engines: 2, Engine: fleettest.QuickEngine(8)}, "")
	c := newChurn(f, 1)
	c.begin()
	c.agree()
	steady := f.Drive(1, fleettest.AlternatingBodies("demo-chat"))
	store.Stop()
	store.Replace(t)
	began := time.Now()
	testkit.Within(t, 10*time.Second, "all nodes to hold back the deletions", func() bool {
		time.Sleep(100 * time.Millisecond) // these pages are long
		for name, admin := range f.Admins() {
			held := f.FleetPage(admin).PendingDeletions
			if !slices.Contains(held, "models/demo-chat") || name == "ams-1" && !slices.Contains(held, "endpoints/ams/sim-1") {
				return false
			}
		}
		return true
	})
	t.Logf("held back %v after the store was lost", time.Since(began).Round(time.Millisecond))
	steady.WaitServed(50)
	for key, doc := range maps.Clone(c.model.good) {
		c.model.remove(key) // of two with one URL, the one that is in the store first counts
		c.write(key, doc)
	}
	t.Logf("in agreement again after %v", c.agree().Round(time.Millisecond))
	steady.Check()
	expectIdle(f)
}

// When more than half of the documents of a kind are deleted at once, they stay in force and requests are served, until the
// deletions are confirmed.
func TestMassDeletionIsHeldBack(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engines: 2, Engine: fleettest.QuickEngine(8)}, "")
	f.WatchShared(60)
	c := newChurn(f, 2)
	c.begin()
	c.write("models/m-00", fleettest.Tree{"pool": "demo", "upstream_name": "demo-chat"})
	c.agree()
	steady := f.Drive(2, fleettest.AlternatingBodies("demo-chat"))
	doomed := f.Drive(2, fleettest.AlternatingBodies("m-00"))
	var ops []clientv3.Op
	var models, endpoints []string
	for key := range c.model.good {
		switch {
		case strings.HasPrefix(key, "models/m-"):
			models = append(models, key)
		case strings.HasPrefix(key, "endpoints/ams/"):
			endpoints = append(endpoints, key)
		default:
			continue
		}
		ops = append(ops, clientv3.OpDelete(node.Prefix+key))
	}
	slices.Sort(models)
	revision := c.o.Txn(ops...)
	f.ExpectEverywhere("the deletions held back", func(name string, p fleettest.FleetPage) bool {
		for _, key := range models {
			if !slices.Contains(p.PendingDeletions, key) || p.Documents[key] == nil {
				return false
			}
		}
		for _, key := range endpoints {
			if name == "ams-1" && !slices.Contains(p.PendingDeletions, key) {
				return false
			}
		}
		return f.Metric(f.Admins()[name], "colonnade_config_deletions_pending") == float64(len(p.PendingDeletions))
	})
	doomed.WaitServed(50)
	doomed.Check()
	c.o.Put(fmt.Sprintf("key: deletions\nconfirmed: %d", revision))
	f.ExpectEverywhere("the deletions confirmed", func(_ string, p fleettest.FleetPage) bool {
		return len(p.PendingDeletions) == 0 && !slices.ContainsFunc(models, func(key string) bool { return p.Documents[key] != nil })
	})
	if a := f.Chat(`{"model":"m-00","messages":[]}`); a.Status != 404 {
		t.Errorf("a model whose deletion is confirmed: %d %q", a.Status, a.Body)
	}
	for _, key := range append(models, endpoints...) {
		c.model.remove(key)
	}
	c.agree()
	steady.Check() // by the other colo
}

// A node whose lease is revoked or whose key is deleted registers again, once, and no request fails.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(fleettest.SlowEngine(8)), "")
	o := f.Operator()
	c := f.Drive(1, fleettest.AlternatingBodies("demo-chat"))
	stream := f.LongStream("demo-chat")
	for _, key := range []string{"servers/ams/ams-1", "entries/entry-1"} {
		for how, lose := range map[string]func(*clientv3.GetResponse) error{
			"revoked": func(r *clientv3.GetResponse) error {
				_, err := o.Client.Revoke(context.Background(), clientv3.LeaseID(r.Kvs[0].Lease))
				return err
			},
			"deleted": func(r *clientv3.GetResponse) error {
				_, err := o.Client.Delete(context.Background(), string(r.Kvs[0].Key))
				return err
			},
		} {
			before := registered(o)[key]
			if err := lose(o.Get(node.Prefix + key)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			testkit.Within(t, 2*time.Second, key+" to be registered again", func() bool { return registered(o)[key] > before })
			t.Logf("%s, %s, was registered again after %v", key, how, time.Since(began).Round(time.Millisecond))
		}
	}
	again := registered(o)
	for key := range again {
		awaitRenewals(o, key, 2)
	}
	if now := registered(o); !maps.Equal(now, again) {
		t.Errorf("registered as %v, and then as %v", again, now)
	}
	f.ExpectEverywhere("nothing to be suspect", func(_ string, p fleettest.FleetPage) bool { return len(p.ExpiredLeases) == 0 })
	stream.ExpectProperEnd()
	c.Check()
	expectIdle(f)
}

// awaitRenewals waits until the lease of a key was renewed so often, by the time that it has left.
func awaitRenewals(o *fleettest.Operator, key string, renewals int) {
	o.F.T.Helper()
	lease := clientv3.LeaseID(o.Get(node.Prefix + key).Kvs[0].Lease)
	last, seen := int64(0), time.Now()
	testkit.WaitFor(o.F.T, "the lease of "+key+" to be renewed", func() bool {
		time.Sleep(100 * time.Millisecond)
		asked := time.Now()
		left, err := o.Client.TimeToLive(context.Background(), lease)
		if err != nil {
			o.F.T.Fatal(err)
		}
		if float64(left.TTL) > float64(last+1)-asked.Sub(seen).Seconds() { // a lease that is not renewed loses a second each second
			renewals--
			last, seen = left.TTL, time.Now()
		}
		return renewals < 0 // the first look was none
	})
}

// Bad versions of documents that are in use change nothing: the last good ones stay in force, and every request is served.
func TestBadDocumentsChangeNothing(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(8)}, "key: defaults\nmodel: {retry: {errors: 2}}")
	f.WatchShared(60)
	c := newChurn(f, uint64(time.Now().UnixNano()))
	steady := f.Drive(2, fleettest.AlternatingBodies("default"))
	// All documents but those that nodes write, and the confirmation of deletions.
	operators := func(p fleettest.FleetPage) map[string]fleettest.Tree {
		maps.DeleteFunc(p.Documents, func(key string, _ fleettest.Tree) bool {
			return strings.HasPrefix(key, "servers/") || strings.HasPrefix(key, "entries/") || key == "deletions"
		})
		return p.Documents
	}
	before := map[string]map[string]fleettest.Tree{}
	for name, admin := range f.Admins() {
		before[name] = operators(f.FleetPage(admin))
	}
	keys := []string{"defaults", "models/demo-chat", "pools/demo", "colos/ams", "colos/fra", "endpoints/ams/sim-1", "endpoints/fra/sim-1"}
	for range testkit.AtScale(10, 1000) {
		for _, key := range keys {
			c.putBad(key)
		}
		// A second claim to a URL, and to aliases.
		c.o.Put(f.EndpointDocument("zzz", 0, "nowhere", "concurrency: 99") + "---\nkey: models/zzz\npool: nowhere\naliases: [default, demo-chat]")
		c.o.Remove("endpoints/ams/zzz", "models/zzz")
		// A document that changes to and fro.
		c.o.Put("key: accounts/open\nweight: 2\nlimits: {concurrent: 100}")
		c.o.Put("key: accounts/open\nweight: 3\nlimits: {concurrent: 200}")
	}
	c.o.Remove("accounts/open")
	var wrong []string
	defer func() {
		for _, w := range wrong {
			t.Error(w)
		}
	}()
	f.ExpectEverywhere("the last good documents to be in force", func(name string, p fleettest.FleetPage) bool {
		good := 0
		for _, r := range p.Rejected {
			if r.LastGood && slices.Contains(keys, r.Key) {
				good++
			}
		}
		want := map[string]int{"entry-1": 4, "ams-1": 6, "fra-1": 6}[name]
		wrong = nil
		if metric := f.Metric(f.Admins()[name], "colonnade_config_rejected"); good != want || len(p.Rejected) != want || metric != float64(want) {
			wrong = append(wrong, fmt.Sprintf("%s: rejected are %v, and %v by the metric; want %d", name, p.Rejected, metric, want))
		}
		if len(p.Conflicts) > 0 || !reflect.DeepEqual(before[name], operators(p)) {
			wrong = append(wrong, fmt.Sprintf("%s has %v and conflicts %v; had %v", name, p.Documents, p.Conflicts, before[name]))
		}
		return wrong == nil
	})
	c.o.Put("key: defaults\n---\nkey: models/demo-chat\npool: demo\naliases: [default]")
	f.ExpectEverywhere("the corrected documents", func(_ string, p fleettest.FleetPage) bool {
		return p.Field("models/demo-chat", "retry", "errors") == 3. && !slices.ContainsFunc(p.Rejected, func(r fleettest.Rejection) bool { return r.Key == "models/demo-chat" })
	})
	steady.Check()
}
