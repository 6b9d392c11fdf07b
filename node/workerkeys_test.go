package node_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/worker"
	"colonnade/worker/wire"
)

// workerFleet is a colo with two servers and two keys of workers.
type workerFleet struct {
	t          *testing.T
	put        func(key, value string)
	delete     func(key string)
	gpus, more string // keys
	one, two   node.Running
	registered func(key string) bool
	log        *testkit.SyncBuffer // of both servers
}

func newWorkerFleet(t *testing.T) *workerFleet {
	t.Helper()
	s := etcdtest.Start(t)
	client := s.Client(t)
	f := &workerFleet{t: t}
	f.put = func(key, value string) {
		t.Helper()
		if _, err := client.Put(t.Context(), node.Prefix+key, value); err != nil {
			t.Fatal(err)
		}
	}
	f.delete = func(key string) {
		t.Helper()
		if _, err := client.Delete(t.Context(), node.Prefix+key); err != nil {
			t.Fatal(err)
		}
	}
	f.registered = func(key string) bool { _, ok := registered(t, client, key); return ok }
	var text string
	f.gpus, text = newAPIKey(t, "gpus", "")
	f.put("keys/gpus", text)
	f.more, text = newAPIKey(t, "more", "")
	f.put("keys/more", text)
	f.put("colos/ams", "{}")
	keys, next := config(t, s, "ams-1"), config(t, s, "ams-2")
	next.Keys = keys.Keys
	f.log = recordLog(t, &keys)
	next.Logger = keys.Logger
	f.one, _ = startColo(t, keys)
	f.two, _ = startColo(t, next)
	return f
}

// send sends one request of a worker, which does not renew anything.
func (f *workerFleet) send(method string, at node.Running, key string, s worker.Registration) (status int, body string) {
	f.t.Helper()
	request, err := wire.NewRequest(&s.Worker, s.Endpoint, s.Models)
	if err != nil {
		f.t.Fatal(err)
	}
	text, _ := json.Marshal(request)
	path := wire.Path + s.Worker.Node
	if method == http.MethodDelete {
		path += "?boot=" + s.Worker.Boot
	}
	q, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+at.Admin+path, bytes.NewReader(text))
	if err != nil {
		f.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+key)
	q.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	all, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(all)
}

// A process has one endpoint, whatever it sends, and what a key has registered belongs to that key, also for one who knows the boot id.
func TestRegistrationBelongsToItsKey(t *testing.T) {
	t.Parallel()
	f := newWorkerFleet(t)
	url := simulated(t)
	s := state("gpu-1", "ams", url, 2)
	w := registerAt(t, f.gpus, "http://"+f.one.Admin)
	w.stored(s)

	other := s
	other.Worker.Engine.Endpoint, other.Endpoint.Key = "gpu-2", "endpoints/ams/gpu-2"
	if status, body := f.send(http.MethodPut, f.one, f.gpus, other); status != 400 || !strings.Contains(body, "this process has registered endpoints/ams/gpu-1, and endpoints/ams/gpu-2 now") {
		t.Errorf("another endpoint: %d %s", status, body)
	}
	if status, body := f.send(http.MethodPut, f.one, f.more, s); status != 409 {
		t.Errorf("another key takes the registration over: %d %s", status, body)
	}
	if status, body := f.send(http.MethodDelete, f.one, f.more, s); status != 409 {
		t.Errorf("another key ends the registration: %d %s", status, body)
	}
	stolen := registerAt(t, f.more, "http://"+f.two.Admin)
	stolen.Set(s)
	stolen.fails(f.more, "409", "gpu-1")
	if mark := workerOf(t, f.one, "gpu-1").RegisteredBy; !strings.HasPrefix(mark, "gpus ") {
		t.Errorf("it is registered by %q", mark)
	}
	w.stored(state("gpu-1", "ams", url, 3)) // the server lives, and has it
	w.leave()
}

// workerOf returns the document of a worker as a node has it.
func workerOf(t *testing.T, at node.Running, name string) (w fleet.Worker) {
	t.Helper()
	var dump struct {
		Documents map[string]json.RawMessage `json:"documents"`
	}
	if err := json.Unmarshal([]byte(page(t, at, "/debug/fleet")), &dump); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(dump.Documents["workers/"+name], &w)
	return w
}

// The engine of a worker that has gone stays while it answers, and not after its key was revoked: at each server, also if another key has the ID.
func TestRevocationReachesEnginesWithoutWorkers(t *testing.T) {
	t.Parallel()
	f := newWorkerFleet(t)
	has := func(r node.Running, id string) bool {
		return strings.Contains(page(t, r, "/debug/fleet"), `"endpoints/ams/`+id+`"`)
	}
	for id, key := range map[string]string{"gpu-1": f.gpus, "gpu-2": f.more} {
		s := state(id, "ams", simulated(t), 2)
		if status, body := f.send(http.MethodPut, f.one, key, s); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		testkit.WaitFor(t, "the engine at both servers", func() bool { return has(f.one, id) && has(f.two, id) })
	}
	testkit.WaitFor(t, "the ends of the registrations", func() bool { return !f.registered("endpoints/ams/gpu-1") && !f.registered("endpoints/ams/gpu-2") })
	for _, r := range []node.Running{f.one, f.two} {
		if !has(r, "gpu-1") || !has(r, "gpu-2") {
			t.Error("an engine that answers was taken out")
		}
	}
	_, text := newAPIKey(t, "gpus", "")
	f.put("keys/gpus", text)
	testkit.WaitFor(t, "the engine of the key that was replaced is gone", func() bool { return !has(f.one, "gpu-1") && !has(f.two, "gpu-1") })
	if !has(f.one, "gpu-2") {
		t.Error("the engine of another key was taken out")
	}
	const reason = "the API key that has registered it is not valid any more"
	testkit.WaitFor(t, "the reason in the log of each server", func() bool { return strings.Count(f.log.String(), reason) == 2 })
	f.delete("keys/more")
	testkit.WaitFor(t, "the engine of the key that was revoked is gone", func() bool { return !has(f.one, "gpu-2") && !has(f.two, "gpu-2") })
}

// An engine whose worker lives gets no more requests either, once its key is revoked: its health check still succeeds.
func TestRevocationReachesEnginesWithWorkers(t *testing.T) {
	t.Parallel()
	f := newWorkerFleet(t)
	w := registerAt(t, f.gpus, "http://"+f.one.Admin)
	w.stored(state("gpu-1", "ams", simulated(t), 2))
	f.delete("keys/gpus")
	testkit.WaitFor(t, "the engine is gone", func() bool {
		return !strings.Contains(page(t, f.one, "/debug/fleet")+page(t, f.two, "/debug/fleet"), `"endpoints/ams/gpu-1"`)
	})
	w.leave()
}

// A key takes no model of another key, and none of the flag -engine, also when the engine answers after the worker.
func TestServeKeepsModelsOfOthers(t *testing.T) {
	t.Parallel()
	p := newWorkerPlace(t)
	engine, _ := url.Parse(simulated(t))
	var answers atomic.Bool
	forward := httputil.NewSingleHostReverseProxy(engine)
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if answers.Load() {
			forward.ServeHTTP(w, q)
		} else {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(late.Close)
	p.config.Engines = []string{late.URL}
	more, text := newAPIKey(t, "more", "")
	p.write(t, "more", text)
	_, _ = p.start(t)

	w := registerAt(t, p.worker, p.admin)
	w.stored(state("gpu-1", "local", simulated(t), 2))
	thief := registerAt(t, more, p.admin)
	s := state("gpu-2", "local", simulated(t), 2)
	s.Endpoint.Value = bytes.ReplaceAll(s.Endpoint.Value, []byte("pool: p"), []byte("pool: b"))
	s.Models = []document.Raw{{Key: "models/m", Value: []byte("type: chat\npool: b\n")}}
	thief.stored(s)
	w.leave()
	wantPool := func(want string) {
		t.Helper()
		var pool string
		testkit.WaitFor(t, "the pool "+want, func() bool { pool, _ = thief.PoolOf(t.Context(), "m"); return pool == want })
	}
	wantPool("p")
	answers.Store(true)
	wantPool("m")
	thief.leave()
}
