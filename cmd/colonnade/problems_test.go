package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/cmd/internal/command"
	"colonnade/forwarding/hop"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// nodeConfig is the config of a node of a fleet with an etcd.
func nodeConfig(t *testing.T, s *etcdtest.Server, name string, keys *hop.Keys) node.Config {
	return node.Config{
		Node: name, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Etcd: []string{"http://" + s.Address}, DataDir: t.TempDir(), Keys: keys,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// startNode runs a node until the test ends. It returns once the node serves.
func startNode(t *testing.T, run func(context.Context, func(node.Running)) error) node.Running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan node.Running, 1), make(chan error, 1)
	go func() { ended <- run(ctx, func(r node.Running) { started <- r }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case r := <-started:
		return r
	case <-time.After(testkit.Timeout):
		t.Fatal("the node does not serve")
		return node.Running{}
	}
}

func startColoServer(t *testing.T, c node.Config) node.Running {
	return startNode(t, func(ctx context.Context, started func(node.Running)) error {
		return node.RunColo(ctx, node.ColoConfig{Config: c, Colo: "ams"}, started)
	})
}

func startOpenEntry(t *testing.T, c node.Config) node.Running {
	return startNode(t, func(ctx context.Context, started func(node.Running)) error {
		return node.RunEntry(ctx, node.EntryConfig{Config: c, Open: true}, started)
	})
}

// awaitPage waits until a page of a node has a status and a text.
func awaitPage(t *testing.T, url string, status int, text string) {
	t.Helper()
	testkit.WaitFor(t, url+" to say "+text, func() bool {
		got, page := testkit.Get(url)
		return got == status && strings.Contains(page, text)
	})
}

// wantStatus checks the exit status of a command.
func (r ran) wantStatus(t *testing.T, status int) {
	t.Helper()
	if got := command.ExitStatus(r.err); got != status {
		t.Errorf("exit status %d, want %d: %v", got, status, r.err)
	}
}

// request sends a request to an entry, and returns the status.
func request(t *testing.T, address string) int {
	t.Helper()
	answer, err := http.Post("http://"+address+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// A store without documents is an error at every place where an operator looks, but not a reason to take the entries out of service.
func TestEmptyStoreIsAProblem(t *testing.T) {
	s := startEtcd(t)
	entry := startOpenEntry(t, nodeConfig(t, s, "edge-1", hop.RandomKeys()))
	awaitPage(t, "http://"+entry.Admin+"/metrics", 200, "colonnade_problems{kind=\"store_empty\",severity=\"error\"} 1\n")
	awaitPage(t, "http://"+entry.Admin+"/metrics", 200, "colonnade_problems{kind=\"no_colo\",severity=\"error\"} 0\n")
	awaitPage(t, "http://"+entry.Admin+"/debug/config", 200, `"kind": "store_empty"`)
	awaitPage(t, "http://"+entry.Admin+"/health/ready?verbose", 503, "store_empty: there are no documents; effect: every request gets 401")
	testkit.WaitFor(t, "the entry to be registered", func() bool { return strings.Contains(run(t, "", "config", "status").out, "edge-1") })
	r := run(t, "", "config", "status")
	r.fail(t, "- there are no documents", "effect: every request gets 401")
	r.wantStatus(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := command.Run(ctx, newProgram(strings.NewReader(""), io.Discard, io.Discard), []string{"colonnade", "status", "-etcd", "http://127.0.0.1:1"})
	ran{err: err}.wantStatus(t, 2)
	run(t, "", "status", "-odd").wantStatus(t, 2)
}

// An entry with another fleet key than the colos is not ready, and says why.
func TestEntryThatNoColoBelieves(t *testing.T) {
	s := startEtcd(t)
	engine := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(engine.Close)
	put(t, s, map[string]string{"models/m": "pool: p\n", "colos/ams": "{}", "endpoints/ams/e": "url: " + engine.URL + "\npool: p\n"})
	startColoServer(t, nodeConfig(t, s, "ams-1", hop.RandomKeys()))
	entry := startOpenEntry(t, nodeConfig(t, s, "edge-1", hop.RandomKeys()))
	testkit.WaitFor(t, "the colo", func() bool {
		_, page := testkit.Get("http://" + entry.Admin + "/debug/fleet")
		return strings.Contains(page, `"servers/ams/ams-1"`)
	})
	for range 3 {
		if got := request(t, entry.Address); got != http.StatusBadGateway {
			t.Errorf("a request: %d", got)
		}
	}
	const reason = "every colo that answers rejects the hop tokens of this entry (ams)"
	awaitPage(t, "http://"+entry.Admin+"/health/ready", 503, reason)
	awaitPage(t, "http://"+entry.Address+"/health/ready", 503, "")
	awaitPage(t, "http://"+entry.Admin+"/metrics", 200, "colonnade_problems{kind=\"entry_not_believed\",severity=\"error\"} 1\n")
	awaitPage(t, "http://"+entry.Admin+"/metrics", 200, "colonnade_problems{kind=\"node_not_ready\",severity=\"error\"} 0\n") // one fact, one problem
	const text, effect = "entries/edge-1: every colo that answers rejects its hop tokens: ams", "effect: every request at this entry gets 502"
	testkit.WaitFor(t, "the entry to be registered", func() bool { return strings.Contains(run(t, "", "config", "status").out, text) })
	for _, args := range [][]string{{"config", "status"}, {"status"}} {
		r := run(t, "", args...)
		r.fail(t, text, effect)
		r.wantStatus(t, 1)
		if strings.Contains(r.out, "is not ready") {
			t.Errorf("it is reported twice:\n%s", r.out)
		}
	}
}

// A pool whose only engine is down is an error of the colo server, also before any request.
func TestOnlyEngineOfAPoolIsDown(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"models/m": "pool: p\n", "colos/ams": "{}", "endpoints/ams/gpu-1": "url: http://127.0.0.1:1\npool: p\nhealth: {interval: 50ms}\n"})
	colo := startColoServer(t, nodeConfig(t, s, "ams-1", hop.RandomKeys()))
	awaitPage(t, "http://"+colo.Admin+"/metrics", 200, "colonnade_problems{kind=\"pool_down\",severity=\"error\"} 1\n")
	awaitPage(t, "http://"+colo.Admin+"/health/ready?verbose", 200, "pool_down: servers/ams/ams-1: pool p: no engine is up: gpu-1 down")
	awaitPage(t, "http://"+colo.Admin+"/health/ready?verbose", 200, "effect: requests for m get 503, unless another colo has the pool")
	for _, args := range [][]string{{"config", "status"}, {"status"}} {
		r := run(t, "", args...)
		r.fail(t, "servers/ams/ams-1: pool p: no engine is up: gpu-1 down", "action: start the engines")
		r.wantStatus(t, 1)
		testkit.WaitFor(t, "the server to register that it has no slots", func() bool { return strings.Contains(run(t, "", args...).out, "effect: every request for m gets 503") })
	}
	put(t, s, map[string]string{"endpoints/ams/gpu-1": "url: http://127.0.0.1:1\npool: typo\n"})
	r := run(t, "", "status")
	r.fail(t, `models/m: pool: "p": no endpoint is in this pool, so the model cannot be served`, "effect: every request for m gets 503")
}
