package registration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
	"colonnade/worker/registration"
)

// The documents of a worker stand under one lease, follow its state, and are removed at its end. While its engine has not answered, it has no
// endpoint.
func TestDocumentsFollowState(t *testing.T) {
	s := start(t)
	r := s.run(s.config())
	starting := state("gpu-7", "llama", 4)
	starting.Endpoint, starting.Models = document.Raw{}, nil
	r.put(starting)
	if s.get(endpointKey) != nil || !strings.Contains(s.value(workerKey), `"boot":"gpu-7-b1"`) {
		t.Errorf("while it starts: %q, %q", s.value(endpointKey), s.value(workerKey))
	}
	r.put(state("gpu-7", "llama", 4))
	w, e := s.get(workerKey), s.get(endpointKey)
	if e == nil || w.Lease == 0 || e.Lease != w.Lease || !strings.Contains(string(e.Value), "concurrency: 4") {
		t.Fatalf("%v and %v, want both under one lease", w, e)
	}
	r.put(state("gpu-7", "llama", 0))
	if !strings.Contains(s.value(endpointKey), "concurrency: 0") || !strings.Contains(s.value(workerKey), `"draining"`) {
		t.Errorf("taken out: %q, %q", s.value(endpointKey), s.value(workerKey))
	}
	r.end(nil)
	if s.get(workerKey) != nil || s.get(endpointKey) != nil {
		t.Error("documents are left at the end")
	}
	if s.get("models/llama") == nil {
		t.Error("the document of the model went with the worker")
	}
}

// A lost lease is replaced by one other, with both documents as they are by then.
func TestLeaseLost(t *testing.T) {
	s := start(t)
	r := s.run(s.config())
	r.put(state("gpu-7", "llama", 4))
	first := s.get(workerKey).Lease
	if _, err := s.client.Revoke(s.ctx(), clientv3.LeaseID(first)); err != nil {
		t.Fatal(err)
	}
	r.Set(state("gpu-7", "llama", 3))
	testkit.WaitFor(t, "another lease", func() bool {
		w, e := s.get(workerKey), s.get(endpointKey)
		return w != nil && e != nil && w.Lease != first && e.Lease == w.Lease && strings.Contains(string(e.Value), "concurrency: 3")
	})
	if err := r.Stored(s.ctx()); err != nil {
		t.Error(err)
	}
	leases, err := s.client.Leases(s.ctx())
	if err != nil || len(leases.Leases) != 1 {
		t.Errorf("leases %+v, %v", leases, err)
	}
	r.end(nil)
}

// While etcd is away, nothing ends, Stored waits, and the newest state is put when etcd is back.
func TestStoreAway(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	c := s.config()
	client, err := etcd.Dial([]string{"http://" + p.Address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c.Client = client
	p.Swallow()
	r := s.run(c) // away from the start
	r.Set(state("gpu-7", "llama", 4))
	stored := func() error {
		ctx, cancel := context.WithTimeout(s.ctx(), 500*time.Millisecond)
		defer cancel()
		return r.Stored(ctx)
	}
	if err := stored(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), workerKey) {
		t.Errorf("stored without etcd: %v", err)
	}
	p.Heal()
	if err := r.Stored(s.ctx()); err != nil {
		t.Fatal(err)
	}
	p.Swallow()
	r.Set(state("gpu-7", "llama", 0))
	if err := stored(); err == nil {
		t.Error("stored without etcd")
	}
	ctx, cancel := context.WithTimeout(s.ctx(), 500*time.Millisecond)
	defer cancel()
	if n, err := r.InFlight(ctx); err == nil {
		t.Errorf("%d in flight, known without etcd", n)
	}
	p.Heal()
	testkit.WaitFor(t, "the newest state", func() bool { return strings.Contains(s.value(endpointKey), "concurrency: 0") })
	r.end(nil)
}

// A worker whose key another living worker has ends with an error that says who that is. The other is left alone.
func TestTakenPlaces(t *testing.T) {
	s := start(t)
	first := s.run(s.config())
	first.put(state("gpu-7", "llama", 4))
	before := s.get(workerKey)

	same := s.run(s.config())
	again := state("gpu-7", "llama", 2)
	again.Worker.Boot = "b2"
	same.Set(again)
	if err := same.fails(workerKey, "on the machine machine-1", "10.0.0.7:9100", ownURL, `boot "gpu-7-b1"`, "-node"); !isTaken(err) {
		t.Errorf("%v is no TakenError", err)
	}

	c := s.config()
	c.Node = "gpu-8"
	other := s.run(c) // another name, and the same engine
	other.Set(state("gpu-8", "llama", 2))
	if err := other.fails(endpointKey, "worker gpu-7 on the machine machine-1", "-id"); !isTaken(err) {
		t.Errorf("%v is no TakenError", err)
	}
	if s.get("workers/gpu-8") != nil {
		t.Error("it stays registered")
	}
	if kv := s.get(workerKey); kv == nil || kv.ModRevision != before.ModRevision || !strings.Contains(s.value(endpointKey), "concurrency: 4") {
		t.Errorf("the first was changed: %v", kv)
	}
	first.end(nil)
}

func isTaken(err error) bool {
	var taken *etcd.TakenError
	return errors.As(err, &taken)
}

// Documents of operators under the worker's keys, or with the engine's URL, are errors that say what to do.
func TestDocumentsOfOperators(t *testing.T) {
	s := start(t)
	f := func(key, value string, texts ...string) {
		t.Helper()
		s.put(key, value)
		for _, early := range []bool{false, true} { // before the engine has answered
			next := state("gpu-7", "llama", 4)
			if early {
				next.Endpoint, next.Models = document.Raw{}, nil
			}
			r := s.run(s.config())
			r.Set(next)
			_ = r.fails(append(texts, key, "colonnade config delete "+key)...)
		}
		if s.value(key) != value {
			t.Errorf("%s was changed to %q", key, s.value(key))
		}
		if _, err := s.client.Delete(s.ctx(), etcd.DefaultPrefix+key); err != nil {
			t.Fatal(err)
		}
	}
	f(endpointKey, "{url: 'http://h:1', pool: p, concurrency: 1}", "by hand")
	f(workerKey, "{}", "by hand")
	f("endpoints/ams/seven", "{url: '"+ownURL+"/v1', pool: p, concurrency: 1}", "has the URL "+ownURL)
}

// Only an existing colo can have engines.
func TestUnknownColo(t *testing.T) {
	s := start(t)
	s.put("colos/fra", "state: active")
	c := s.config()
	c.Colo = "amx"
	r := s.run(c)
	r.Set(state("gpu-7", "llama", 4))
	_ = r.fails(`"amx"`, "ams, fra", "-colo")
	if err := r.Stored(s.ctx()); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stored after the end: %v", err)
	}
}

// A worker whose place was taken while it was cut off goes on, says who has it, and registers again when the place is free.
func TestPlaceLostLater(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	client, err := etcd.Dial([]string{"http://" + p.Address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c := s.config()
	c.Client, c.TTL = client, 2*time.Second
	first := s.run(c)
	first.put(state("gpu-7", "llama", 4))
	p.Swallow()
	second := s.run(s.config())
	next := state("gpu-7", "llama", 2)
	next.Worker.Boot = "b2"
	second.put(next)
	p.Heal()
	testkit.WaitFor(t, "the first to say who has its place", func() bool { return strings.Contains(s.log.String(), "the place of this worker was taken") })
	if !strings.Contains(s.value(workerKey), `"b2"`) || !strings.Contains(s.value(endpointKey), "concurrency: 2") {
		t.Error("the second was disturbed")
	}
	second.end(nil)
	testkit.WaitFor(t, "the first to be registered again", func() bool { return strings.Contains(s.value(endpointKey), "concurrency: 4") })
	first.end(nil)
}

// A worker that was killed and comes back has its place at once, since its directory has its lease. Two processes cannot use it at once.
func TestRestartAfterKill(t *testing.T) {
	s := start(t)
	c := s.config()
	c.Dir, c.TTL = t.TempDir(), 10*time.Minute
	killed := s.run(c)
	killed.put(state("gpu-7", "llama", 4))

	second := s.run(c)
	second.Set(state("gpu-7", "llama", 4))
	_ = second.fails("another process of this machine", "-node")

	killed.end(registration.ErrLapsed) // as by kill -9: the lease stays
	if s.get(workerKey) == nil {
		t.Fatal("the documents went")
	}
	third := s.run(c)
	next := state("gpu-7", "llama", 3)
	next.Worker.Boot = "b2"
	third.put(next) // within less than the TTL
	if !strings.Contains(s.value(workerKey), `"b2"`) || !strings.Contains(s.value(endpointKey), "concurrency: 3") {
		t.Errorf("%q", s.value(workerKey))
	}
	third.end(nil)
}

// A worker that turns to another server, which registers it on its behalf, has its place there at once.
func TestOnBehalf(t *testing.T) {
	s := start(t)
	c := s.config()
	c.OnBehalf, c.TTL = true, 10*time.Second
	first := s.run(c)
	first.put(state("gpu-7", "llama", 4))
	second := s.run(c)
	second.put(state("gpu-7", "llama", 3))
	_ = first.fails(workerKey)
	if !strings.Contains(s.value(endpointKey), "concurrency: 3") {
		t.Errorf("the endpoint is %q", s.value(endpointKey))
	}
	other := s.run(c)
	foreign := state("gpu-7", "llama", 1)
	foreign.Worker.Boot = "b2"
	other.Set(foreign)
	if err := other.fails(workerKey); !isTaken(err) {
		t.Errorf("%v is no TakenError", err)
	}
	second.end(registration.ErrLapsed)
	if s.get(workerKey) == nil || s.get(endpointKey) == nil {
		t.Error("the documents of a worker of which nothing was heard went at once")
	}
}

// InFlight is 0 once no record of the colo mentions the engine.
func TestInFlight(t *testing.T) {
	s := start(t)
	r := s.run(s.config())
	if n, err := r.InFlight(s.ctx()); n != 0 || err != nil {
		t.Errorf("before there is an endpoint: %d, %v", n, err)
	}
	r.put(state("gpu-7", "llama", 8))
	r.put(state("gpu-7", "llama", 0))
	f := func(want int, records ...string) {
		t.Helper()
		for i, value := range records {
			s.put(fmt.Sprintf("owners/ams/ams-%d/b1", i/2+1)+[]string{"", "/held"}[i%2], value)
		}
		if n, err := r.InFlight(s.ctx()); n != want || err != nil {
			t.Errorf("%q: %d in flight, %v; want %d", records, n, err, want)
		}
	}
	const owns, other = `{"version":1,"put":1,"address":"h:1","owns":{"` + ownURL + `":4}}`, `{"version":1,"put":2,"address":"h:1","owns":{"http://10.0.0.8:8000":4}}`
	f(0)
	f(1, owns, `{}`)
	f(3, other, `{"`+ownURL+`":3}`)
	f(5, other, `{"`+ownURL+`":3}`, other, `{"`+ownURL+`":2,"http://10.0.0.8:8000":9}`)
	f(1, other, `{}`, `{"version":99,"owns":{"`+ownURL+`":4},"more":true}`, `{}`)
	f(0, other, `{}`, other, `{}`)
	short, cancel := context.WithTimeout(s.ctx(), 150*time.Millisecond)
	defer cancel()
	if n, err := r.InFlight(short); err == nil {
		t.Errorf("after one look: %d in flight, and no error", n)
	}
	s.put("owners/fra/fra-1/b1", owns)
	f(0)

	// A server that puts its record a moment late counts.
	late := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() {
		_, err := s.client.Put(context.Background(), etcd.DefaultPrefix+"owners/ams/ams-1/b1", owns)
		late <- err
	})
	if n, err := r.InFlight(s.ctx()); n != 1 || err != nil {
		t.Errorf("a record put a moment later: %d, %v", n, err)
	}
	if err := <-late; err != nil {
		t.Fatal(err)
	}
	r.end(nil)
}
