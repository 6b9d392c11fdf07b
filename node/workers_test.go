package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/worker"
	"colonnade/worker/adminapi"
)

// newAPIKey makes an API key, and its document as a file has it.
func newAPIKey(t *testing.T, id, account string) (key, text string) {
	t.Helper()
	key, entry := accounts.NewWorkerKey(id, time.Now(), time.Time{})
	if account != "" {
		key, entry = accounts.NewKey(account, id, time.Now(), time.Time{})
	}
	doc, err := document.EncodeAPIKey(&entry)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(doc.Value)
}

// registrant is a worker's side of a registration.
type registrant struct {
	worker.Registry
	t      *testing.T
	log    *testkit.SyncBuffer
	cancel context.CancelFunc
	ended  chan error
}

// registerAt begins to register at some servers, with a token.
func registerAt(t *testing.T, token string, servers ...string) *registrant {
	t.Helper()
	r := &registrant{t: t, log: &testkit.SyncBuffer{}, ended: make(chan error, 1)}
	var err error
	r.Registry, err = adminapi.New(adminapi.Config{Servers: servers, Token: adminapi.Token(token, "the test"),
		Logger: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), r.log), nil))})
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(r.cancel)
	return r
}

// state is what a worker reports about an engine.
func state(name, colo, url string, concurrency int) worker.Registration {
	s := worker.Registration{Worker: fleet.Worker{
		Node: name, Colo: colo, Boot: "boot-of-" + name, Protocol: fleet.ProtocolRange{Min: 1, Max: 1},
		Engine: fleet.WorkerEngine{Endpoint: name, URL: url, State: fleet.WorkerServing},
	}}
	s.Endpoint = document.Raw{Key: fleet.KindEndpoint.Key(colo, name),
		Value: fmt.Appendf(nil, "# by a test\nurl: %s\npool: p\nconcurrency: %d\nhealth: {interval: 50ms}\n", url, concurrency)}
	s.Models = []document.Raw{{Key: "pools/p", Value: []byte("queue: {limit: 8, max_wait: 10s}\n")}, {Key: "models/m", Value: []byte("type: chat\npool: p\n")}}
	return s
}

// stored sets a state and waits until it stands.
func (r *registrant) stored(s worker.Registration) {
	r.t.Helper()
	r.Set(s)
	ctx, cancel := context.WithTimeout(r.t.Context(), testkit.Timeout)
	defer cancel()
	if err := r.Stored(ctx); err != nil {
		r.t.Fatal(err)
	}
}

func (r *registrant) inFlight() int {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), testkit.Timeout)
	defer cancel()
	n, err := r.InFlight(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// leave ends the registration.
func (r *registrant) leave() {
	r.t.Helper()
	r.cancel()
	if err := <-r.ended; err != nil {
		r.t.Error(err)
	}
}

// fails waits until Run has ended with an error that has some texts, and never the token.
func (r *registrant) fails(token string, texts ...string) {
	r.t.Helper()
	select {
	case err := <-r.ended:
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				r.t.Errorf("got %v, want %q", err, text)
			}
		}
		if err != nil && strings.Contains(err.Error()+r.log.String(), token[len(token)-10:]) {
			r.t.Errorf("the token is in %v or in the log", err)
		}
	case <-time.After(testkit.Timeout):
		r.t.Fatal("it goes on")
	}
}

// chat sends a request for the model m, and returns the status of the answer, which is read to its end.
func chat(t *testing.T, r node.Running, key string, tokens int) (status int, body string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Address+"/v1/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"x"}]}`, tokens)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+key)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	all, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(all)
}

// simulated starts a simulated engine.
func simulated(t *testing.T) (url string) {
	t.Helper()
	e := simengine.New(simengine.Config{Models: []string{"m"}, Tokens: 400, ITL: 5 * time.Millisecond})
	server := httptest.NewServer(e)
	t.Cleanup(func() { server.Close(); e.Close() })
	return server.URL
}

// workerPlace is a process that serves one place with keys in files.
type workerPlace struct {
	config           node.ServeConfig
	worker, client   string // keys
	workerDoc        string
	clientDoc        string
	logged           *testkit.SyncBuffer
	directory, admin string
}

func newWorkerPlace(t *testing.T) *workerPlace {
	t.Helper()
	p := &workerPlace{directory: t.TempDir()}
	p.worker, p.workerDoc = newAPIKey(t, "gpus", "")
	p.client, p.clientDoc = newAPIKey(t, "app", "acme")
	p.write(t, "gpus", p.workerDoc)
	p.write(t, "app", p.clientDoc)
	p.config = node.ServeConfig{Documents: p.directory, Config: node.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", DataDir: t.TempDir(), Drain: time.Second,
	}}
	p.logged = recordLog(t, &p.config.Config)
	return p
}

// write puts the document of a key into a file of its own.
func (p *workerPlace) write(t *testing.T, id, text string) {
	t.Helper()
	file := filepath.Join(p.directory, id+".json")
	if err := os.WriteFile(file, []byte(strings.Replace(text, "{", `{"key": "keys/`+id+`", `, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start serves the place. Later starts have the same addresses.
func (p *workerPlace) start(t *testing.T) (r node.Running, stop func()) {
	t.Helper()
	r, stop = start(t, func(ctx context.Context, started func(node.Running)) error {
		return node.RunServe(ctx, p.config, started)
	})
	p.config.Listen, p.config.Admin, p.admin = r.Address, r.Admin, "http://"+r.Admin
	return r, stop
}

// A process that serves one place serves the engine of a worker, says how many requests are on it once it is taken out, and knows its model
// after it has gone.
func TestServeRegistersWorkers(t *testing.T) {
	t.Parallel()
	p := newWorkerPlace(t)
	r, _ := p.start(t)
	url := simulated(t)
	w := registerAt(t, p.worker, p.admin)
	w.stored(state("gpu-1", "local", url, 2))
	if status, body := chat(t, r, p.client, 1); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if pool, err := w.PoolOf(t.Context(), "m"); err != nil || pool != "p" {
		t.Errorf("the pool of the model is %q: %v", pool, err)
	}
	var dump struct {
		Documents map[string]json.RawMessage `json:"documents"`
	}
	if text := page(t, r, "/debug/fleet"); json.Unmarshal([]byte(text), &dump) != nil || dump.Documents["workers/gpu-1"] == nil {
		t.Errorf("the worker's document is missing in %s", text)
	}
	if status, body := chat(t, r, p.worker, 1); status != http.StatusUnauthorized || !strings.Contains(body, "has the role worker") {
		t.Errorf("a request with the key of the worker: %d %s", status, body)
	}

	long := make(chan int, 1)
	go func() {
		status, _ := chat(t, r, p.client, 2000)
		long <- status
	}()
	testkit.WaitFor(t, "a request on the engine", func() bool { return w.inFlight() == 1 })
	w.stored(state("gpu-1", "local", url, 0))
	sawOne := w.inFlight() == 1
	testkit.WaitFor(t, "no request on the engine", func() bool { return w.inFlight() == 0 })
	if status := <-long; status != http.StatusOK || !sawOne {
		t.Errorf("the request that ran: %d, seen: %v", status, sawOne)
	}
	w.leave()
	testkit.WaitFor(t, "the engine is gone", func() bool { return !strings.Contains(page(t, r, "/debug/fleet"), "endpoints/local/gpu-1") })
	if status, body := chat(t, r, p.client, 1); status == http.StatusNotFound || status == http.StatusOK {
		t.Errorf("after the engine has gone: %d %s", status, body)
	}
	if strings.Contains(p.logged.String(), p.worker[len(p.worker)-10:]) {
		t.Error("the key is in the log")
	}
}

// Another process of the place serves the engines that the last one had at once, and its workers come back by themselves.
func TestServeRestartsWithWorkers(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{true, false} {
		p := newWorkerPlace(t)
		if !keeps {
			p.config.DataDir = ""
		}
		_, stop := p.start(t)
		w := registerAt(t, p.worker, p.admin)
		w.stored(state("gpu-1", "local", simulated(t), 2))
		stop()
		r, _ := p.start(t)
		testkit.WaitFor(t, "the model is served", func() bool {
			status, body := chat(t, r, p.client, 1)
			if status == http.StatusNotFound {
				t.Fatalf("the model is not known: %s", body)
			}
			return status == http.StatusOK
		})
		w.stored(state("gpu-1", "local", simulated(t), 3))
		w.leave()
	}
}

// The engine of a worker whose key is revoked gets no more requests.
func TestServeEndsRevokedWorkers(t *testing.T) {
	t.Parallel()
	p := newWorkerPlace(t)
	r, _ := p.start(t)
	w := registerAt(t, p.worker, p.admin)
	w.stored(state("gpu-1", "local", simulated(t), 2))
	if err := os.Remove(filepath.Join(p.directory, "gpus.json")); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the engine is gone", func() bool { return !strings.Contains(page(t, r, "/debug/fleet"), "endpoints/local/gpu-1") })
	testkit.WaitFor(t, "the reason in the log of the worker", func() bool { return strings.Contains(w.log.String(), "refuses the token (401)") })
	if got := w.log.String(); strings.Contains(got, p.worker[len(p.worker)-10:]) {
		t.Errorf("logged %s", got)
	}
	p.write(t, "gpus", p.workerDoc) // the worker, whose engine serves on, has not given up
	testkit.WaitFor(t, "the engine is back", func() bool { return strings.Contains(page(t, r, "/debug/fleet"), "endpoints/local/gpu-1") })
	w.leave()
}

// A worker that can never be registered learns why at once.
func TestWorkersThatAreRefused(t *testing.T) {
	t.Parallel()
	p := newWorkerPlace(t)
	_, _ = p.start(t)
	url := simulated(t)
	f := func(token, server, colo string, texts ...string) {
		t.Helper()
		w := registerAt(t, token, server)
		w.Set(state("gpu-1", colo, url, 2))
		w.fails(token, texts...)
	}
	f(p.client, p.admin, "local", "refuses the token (403)", "is for requests of the account acme", "keys create -role worker")
	f(p.worker+"x", p.admin, "local", "refuses the token (401)", "no API key in force")
	f(p.worker, p.admin, "fra", `worker.colo: is "fra", and this server is of the colo local`, "-colo local")
	f(p.worker, url, "local", "registers no engines (404)")
	f(p.worker, strings.Replace(p.admin, "http:", "https:", 1), "local", "does not speak HTTPS")
}

// An engine that an operator's document describes is not registered: the worker could not take it out.
func TestEnginesOfOperators(t *testing.T) {
	t.Parallel()
	p := newWorkerPlace(t)
	url := simulated(t)
	file := filepath.Join(p.directory, "endpoints.yaml")
	if err := os.WriteFile(file, []byte("key: endpoints/local/gpu-1\nurl: "+url+"\npool: p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = p.start(t)
	for _, early := range []bool{false, true} {
		for _, name := range []string{"gpu-1", "gpu-2"} { // the same key, and the same URL
			s := state(name, "local", url, 2)
			if early {
				s.Endpoint, s.Models = document.Raw{}, nil
			}
			w := registerAt(t, p.worker, p.admin)
			w.Set(s)
			w.fails(p.worker, "endpoints/local/gpu-1 has ", "already, by "+file+":1, which stays in force")
		}
	}
}

// A colo server puts the documents of a worker into etcd, under a lease that ends with its renewals. Another server takes them over.
func TestColoRegistersWorkers(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	key, keyText := newAPIKey(t, "gpus", "")
	other, otherText := newAPIKey(t, "app", "acme")
	for name, value := range map[string]string{"keys/gpus": keyText, "keys/app": otherText, "colos/ams": "{}"} {
		if _, err := client.Put(t.Context(), node.Prefix+name, value); err != nil {
			t.Fatal(err)
		}
	}
	keys := config(t, s, "ams-1")
	first, stop := startColo(t, keys)
	next := config(t, s, "ams-2")
	next.Keys = keys.Keys
	second, _ := startColo(t, next)
	one, two := "http://"+first.Admin, "http://"+second.Admin
	url := simulated(t)
	refused := registerAt(t, other, one)
	refused.Set(state("gpu-1", "ams", url, 2))
	refused.fails(other, "refuses the token (403)")
	refused = registerAt(t, key, one)
	refused.Set(state("gpu-1", "fra", url, 2))
	refused.fails(key, "this server is of the colo ams")

	if _, err := client.Put(t.Context(), node.Prefix+"endpoints/ams/gpu-9", "{url: '"+url+"', pool: p}"); err != nil {
		t.Fatal(err)
	}
	refused = registerAt(t, key, one)
	refused.Set(state("gpu-1", "ams", url, 2))
	refused.fails(key, "400", "colonnade config delete endpoints/ams/gpu-9")
	if _, err := client.Delete(t.Context(), node.Prefix+"endpoints/ams/gpu-9"); err != nil {
		t.Fatal(err)
	}

	w := registerAt(t, key, one, two)
	w.stored(state("gpu-1", "ams", url, 2))
	lease, ok := registered(t, client, "endpoints/ams/gpu-1")
	if _, models := registered(t, client, "models/m"); !ok || lease == 0 || !models {
		t.Fatalf("lease %d, registered %v, models %v", lease, ok, models)
	}
	stop() // its lease stays until another server has the documents
	w.stored(state("gpu-1", "ams", url, 3))
	if next, ok := registered(t, client, "endpoints/ams/gpu-1"); !ok || next == lease {
		t.Errorf("registered %v under %d, before under %d", ok, next, lease)
	}
	w.stored(state("gpu-1", "ams", url, 0))
	testkit.WaitFor(t, "no request in flight", func() bool { return w.inFlight() == 0 })
	w.leave()
	if _, ok := registered(t, client, "endpoints/ams/gpu-1"); ok {
		t.Error("it has left and is still registered")
	}

	w = registerAt(t, key, two)
	w.stored(state("gpu-2", "ams", url, 2))
	if _, err := client.Delete(t.Context(), node.Prefix+"keys/gpus"); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the engine of a revoked key is gone", func() bool { _, ok := registered(t, client, "endpoints/ams/gpu-2"); return !ok })
	w.leave()
}
