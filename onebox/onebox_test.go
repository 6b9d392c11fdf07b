package onebox_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"colonnade/fleet/document"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

func TestPlainAndStreamed(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, "")
	f.Watch(8)
	a := f.Chat(fleettest.ChatBody(5, false))
	if a.Status != 200 || !strings.Contains(a.Body, `"completion_tokens":5`) {
		t.Errorf("plain: %d %q", a.Status, a.Body)
	}
	if a.Header.Get("x-colonnade-colo") != "ams" || a.Header.Get("x-colonnade-attempts") != "1" || a.Header.Get("x-request-id") == "" {
		t.Errorf("headers: %v", a.Header)
	}
	a = f.Chat(fleettest.ChatBody(5, true))
	if a.Status != 200 || !strings.HasSuffix(a.Body, "data: [DONE]\n\n") || strings.Contains(a.Body, `"usage":{`) {
		t.Errorf("streamed: %d %q", a.Status, a.Body)
	}
}

// A second fleet reports that the directory is taken, and does not wait for it.
func TestDirInUse(t *testing.T) {
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "")
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	err := onebox.Run(ctx, onebox.Config{Listen: "127.0.0.1:0", Etcd: "127.0.0.1:0", Dir: f.Dir, Colos: []string{"ams"}, Engines: 1},
		func(*onebox.Fleet) { t.Error("a second fleet has started") })
	if err == nil || !strings.Contains(err.Error(), "directory "+f.Dir+" is in use by another fleet") {
		t.Errorf("a second fleet ended with: %v", err)
	}
}

// Documents that an operator has changed survive a restart on the same directory, and the new engines are found.
func TestDirKeepsDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var steps []string
	start := func(use func(*fleettest.Fleet)) {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
		defer cancel()
		served := false
		err := onebox.Run(ctx, onebox.Config{Listen: "127.0.0.1:0", Etcd: "127.0.0.1:0", Dir: dir, Colos: []string{"ams"}, Engines: 1, Engine: fleettest.QuickEngine(1),
			Open: true, Progress: func(what string) { steps = append(steps, what) }}, func(up *onebox.Fleet) {
			f := &fleettest.Fleet{Fleet: up, T: t, Client: &http.Client{}}
			use(f)
			if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
				t.Errorf("chat: %d %s", a.Status, a.Body)
			}
			f.Client.CloseIdleConnections()
			served = true
			cancel()
		})
		if err != nil || !served {
			t.Fatalf("served: %v; %v", served, err)
		}
	}
	start(func(f *fleettest.Fleet) {
		docs := []document.Raw{{Key: "pools/demo", Value: []byte("queue: {limit: 7}")}}
		if err := f.Apply(t.Context(), docs); err != nil {
			t.Error(err)
		}
	})
	start(func(f *fleettest.Fleet) {
		if q := documents(f, f.Colos[0].Admin)["pools/demo"].Queue; q["limit"] != 7. {
			t.Errorf("the queue is %v", q)
		}
	})
	if n := slices.Index(steps, "documents in etcd that differ from the demo are kept: pools/demo"); n < 0 || steps[n-1] != "starting engines" {
		t.Errorf("the steps were %q", steps)
	}
}

// A fleet with a real engine has the engine's models, and the same short queue.
func TestEngineURL(t *testing.T) {
	t.Parallel()
	engine := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), "")
	f := fleettest.Start(t, onebox.Config{EngineURL: engine.Engines[0].URL, Engine: fleettest.QuickEngine(2)}, "")
	if a := f.Chat(`{"model":"default","max_tokens":1,"messages":[]}`); a.Status != 200 || a.Header.Get("x-colonnade-colo") != "ams" {
		t.Errorf("chat: %d %s", a.Status, a.Body)
	}
	if q := documents(f, f.Colos[0].Admin)["pools/engine"].Queue; q["limit"] != 24. || q["per_account"] != 12. || q["max_wait"] != "3s" {
		t.Errorf("the queue is %v", q)
	}
}

// A server that has ended starts again under its name, with another boot id, and gets requests.
func TestServerStartsAgain(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), "")
	first := f.Server("ams-1")
	f.EndNode("ams-1")()
	if !f.HasEnded("ams-1") || f.HasEnded("entry-1") {
		t.Error("the ended node is not ams-1")
	}
	f.StartServer("ams", "ams-1")
	if again := f.Home("ams", "demo"); len(f.Colos) != 1 || again.Node != "ams-1" || again.Boot == first.Boot {
		t.Errorf("the servers are %+v", f.Colos)
	}
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("chat: %d %s", a.Status, a.Body)
	}
}

func TestNumberOfServersIsChecked(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 33} {
		err := onebox.Run(t.Context(), onebox.Config{Colos: []string{"ams"}, Servers: map[string]int{"ams": n}}, func(*onebox.Fleet) {})
		if err == nil || !strings.Contains(err.Error(), "the number must be from 1 to 32") {
			t.Errorf("%d servers: %v", n, err)
		}
	}
}

// When a fleet has started, its entry knows all of it.
func TestEntryKnowsAll(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams", "fra", "waw"}}, "")
	docs := documents(f, f.Entry.Admin)
	for _, s := range []string{"servers/ams/ams-1", "servers/fra/fra-1", "servers/waw/waw-1"} {
		if _, known := docs[s]; !known {
			t.Errorf("the entry does not know %s", s)
		}
	}
}

type poolDocument struct{ Queue map[string]any }

// documents reads the documents that a node has in force, by key.
func documents(f *fleettest.Fleet, admin string) map[string]poolDocument {
	f.T.Helper()
	answer, err := f.Client.Get("http://" + admin + "/debug/fleet")
	if err != nil {
		f.T.Fatal(err)
	}
	defer answer.Body.Close()
	var table struct{ Documents map[string]poolDocument }
	if err := json.NewDecoder(answer.Body).Decode(&table); err != nil {
		f.T.Fatal(err)
	}
	return table.Documents
}

func TestLocal(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := onebox.Local(in); got != want {
			t.Errorf("Local(%q) = %q, want %q", in, got, want)
		}
	}
	f("[::]:8090", "127.0.0.1:8090")
	f("0.0.0.0:1", "127.0.0.1:1")
	f(":2", "127.0.0.1:2")
	f("10.0.0.1:3", "10.0.0.1:3")
	f("[::1]:4", "[::1]:4")
	f("localhost:5", "localhost:5")
	f("nonsense", "nonsense")
}
