package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// Settings that no node can run with are refused before anything is opened.
func TestBadSettings(t *testing.T) {
	f := func(want string, change func(*node.Config)) {
		t.Helper()
		c := node.Config{Node: "ams-1", Listen: "nowhere", Etcd: []string{"http://127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)}
		change(&c)
		for who, err := range map[string]error{
			"entry": node.RunEntry(t.Context(), node.EntryConfig{Config: c}, nil),
			"colo":  node.RunColo(t.Context(), node.ColoConfig{Config: c, Colo: "ams"}, nil),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", who, err, want)
			}
		}
	}
	f("flags -node, -colo", func(c *node.Config) { c.Node = "a b" })
	f("flags -node, -colo", func(c *node.Config) { c.Node = "a/b" })
	f("flag -drain -1s: must not be negative", func(c *node.Config) { c.Drain = -time.Second })
	f(`flag -advertise-address ":8443": must be host:port`, func(c *node.Config) { c.AdvertiseAddress = ":8443" })
	f(`flag -advertise-address "here": must be host:port`, func(c *node.Config) { c.AdvertiseAddress = "here" })
	f(`flag -etcd "": must be URLs`, func(c *node.Config) { c.Etcd = []string{""} })
	f(`flag -etcd "http://a:1,foo://b": unknown scheme "foo"`, func(c *node.Config) { c.Etcd = []string{"http://a:1", "foo://b"} })
	f(`flag -admin-hosts "edge.example:9080": must be names of hosts`, func(c *node.Config) { c.AdminHosts = []string{"edge.example:9080"} })
	f(`flag -admin-hosts "edge.example,": must be names of hosts`, func(c *node.Config) { c.AdminHosts = []string{"edge.example", ""} })
	f(`flag -admin-hosts "*": must be names of hosts`, func(c *node.Config) { c.AdminHosts = []string{"*"} })
	f("flag -listen", func(c *node.Config) { c.AdminHosts = []string{"edge.example", "edge"} })
}

// An entry that registered a region or a position that documents do not accept would not be seen by others.
func TestBadPlaceOfEntry(t *testing.T) {
	f := func(want string, change func(*node.EntryConfig)) {
		t.Helper()
		c := node.EntryConfig{Config: node.Config{Node: "edge-1", Listen: "nowhere", Etcd: []string{"http://127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)}}
		change(&c)
		if err := node.RunEntry(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f(`region: "west europe": a name must begin with`, func(c *node.EntryConfig) { c.Region = "west europe" })
	f("position.lat: 90.1: must be at most 90", func(c *node.EntryConfig) { c.Position = &fleet.Position{Lat: 90.1} })
	f("flag -listen", func(c *node.EntryConfig) { c.Region, c.Position = "weur", &fleet.Position{Lat: -33.9, Lon: 151.2} })
}

// A directory for credentials that is missing, or in which documents could name the node's own data, is refused.
func TestBadCredentialsDir(t *testing.T) {
	dir := t.TempDir()
	data, link, file := filepath.Join(dir, "data"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Symlink("data", link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	f := func(credentials, data, want string) {
		t.Helper()
		c := node.ColoConfig{Colo: "ams", Config: node.Config{Node: "ams-1", Listen: "nowhere", DataDir: data, CredentialsDir: credentials,
			Etcd: []string{"http://127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)}}
		if err := node.RunColo(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("credentials in %s, data in %s: %v, want %q", credentials, data, err, want)
		}
		if err := node.RunEntry(t.Context(), node.EntryConfig{Config: c.Config}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("entry with credentials in %s, data in %s: %v, want %q", credentials, data, err, want)
		}
	}
	f(filepath.Join(dir, "none"), data, "flag -credentials-dir: lstat")
	f(file, data, "is not a directory")
	f(data, data, "has the data directory")
	f(dir, data, "has the data directory")
	f(link, data, "has the data directory")
	f(data, link, "has the data directory")
	f(data, filepath.Join(data, "not", "yet"), "has the data directory")
	f(t.TempDir(), data, "flag -listen")
	f(filepath.Join(dir, "data"), "", "flag -listen")
}

// The admin pages are served under the names in the node's flags, and under that of its machine.
func TestNamesOfTheAdminPages(t *testing.T) {
	s := etcdtest.Start(t)
	c := config(t, s, "edge-1")
	c.AdvertiseAddress, c.AdminHosts = "Edge.example:8080", []string{"metrics.example"}
	r, _ := startEntry(t, c)
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	f := func(host string, want int) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Admin+"/health/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, answer.StatusCode, want)
		}
	}
	f(r.Admin, 200)
	f("edge-1:9080", 200)
	f("edge.example", 200)
	f("metrics.example:9080", 200)
	f(machine, 200)
	f("evil.example:9080", 421)
	f("edge-2:9080", 421)
	http.DefaultClient.CloseIdleConnections()
}

// A node that listens on every address of its machine registers one that other nodes can reach.
func TestAddressThatIsRegistered(t *testing.T) {
	s := etcdtest.Start(t)
	c := config(t, s, "ams-1")
	c.Listen = ":0"
	r, _ := startColo(t, c)
	answer, err := s.Client(t).Get(t.Context(), node.Prefix+"servers/ams/ams-1")
	if err != nil || len(answer.Kvs) != 1 {
		t.Fatal(answer, err)
	}
	var self struct{ Address string }
	if err := json.Unmarshal(answer.Kvs[0].Value, &self); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(r.Address)
	if want := net.JoinHostPort("127.0.0.1", port); self.Address != want {
		t.Errorf("it is registered as %q, want %q, as etcd is on loopback", self.Address, want)
	}
}

// An entry without documents reports that to load balancers and clients, and does not keep them waiting.
func TestEntryWithoutDocuments(t *testing.T) {
	listen := etcdtest.FreeAddress(t)
	c := node.Config{
		Node: "entry-1", Listen: listen, Admin: "127.0.0.1:0", Etcd: []string{"http://" + etcdtest.FreeAddress(t)},
		Keys: hop.RandomKeys(), Drain: time.Second, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- node.RunEntry(ctx, node.EntryConfig{Config: c, Open: true}, func(node.Running) { t.Error("it has started") })
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Timeout}
	ask := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+listen+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	testkit.WaitFor(t, "the entry says that it is not ready", func() bool { status, _ := ask("GET", "/health/ready", ""); return status == 503 })
	if status, _ := ask("GET", "/health/live", ""); status != 200 {
		t.Errorf("it is not alive: %d", status)
	}
	for _, body := range []string{`{"model":"x"}`, strings.Repeat(" ", 200<<10)} { // its models' limits are not known
		if status, text := ask("POST", "/v1/chat/completions", body); status != 503 || !strings.Contains(text, `"reason":"starting"`) {
			t.Errorf("a request of %d bytes got %d %s, want 503 and starting", len(body), status, text)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("asked to end, it ended with: %v", err)
	}
}
