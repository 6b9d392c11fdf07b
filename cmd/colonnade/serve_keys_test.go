package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// servedPlace is a colonnade serve with documents in files, in front of one engine.
type servedPlace struct {
	t            *testing.T
	dir          string
	public       string // base URL
	admin        string
	output, logs record
}

// servePlace serves a directory with one model until the test's end.
func servePlace(t *testing.T) *servedPlace {
	t.Helper()
	engine := simengine.New(simengine.Config{Models: []string{"m"}})
	server := httptest.NewServer(engine)
	p := &servedPlace{t: t, dir: t.TempDir()}
	writeTo(t, p.dir, "place.yaml", "key: models/m\npool: p\n---\nkey: endpoints/local/sim\nurl: "+server.URL+"\npool: p\n---\nkey: keys/other\naccount: other\nsha256: "+strings.Repeat("ab", 32)+"\n")
	end := background(t, &p.output, &p.logs, "serve", "-config", p.dir, "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-drain", "1s")
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
		server.Close()
		engine.Close()
	})
	p.output.await(t, "serving on ")
	found := regexp.MustCompile(`serving on (http://\S+)/v1 \(admin pages: http://(\S+)\)`).FindStringSubmatch(p.output.String())
	if found == nil {
		t.Fatalf("no addresses in %q", p.output.String())
	}
	p.public, p.admin = found[1], found[2]
	return p
}

// status is that of a request with a key.
func (p *servedPlace) status(key string) int { return p.statusOf(key, "m") }

// statusOf is that of a request for a model.
func (p *servedPlace) statusOf(key, model string) int {
	p.t.Helper()
	q, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.public+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+model+`","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		p.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// awaitStatus waits until requests with a key have a status.
func (p *servedPlace) awaitStatus(key string, want int) {
	p.t.Helper()
	testkit.WaitFor(p.t, http.StatusText(want), func() bool { return p.status(key) == want })
}

// config reads the page about the documents.
func (p *servedPlace) config() (c node.ConfigState) {
	p.t.Helper()
	reader := newPageReader(pageTimeout)
	defer reader.client.CloseIdleConnections()
	if err := reader.readJSON(p.t.Context(), p.admin, "/debug/config", &c); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// A command that is stopped before it could print the documents fails.
func TestPrintConfigThatIsStopped(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	var output, notes record
	end := background(t, &output, &notes, "serve", "-engine", gone.URL, "-print-config")
	notes.await(t, "waiting for "+gone.URL)
	if err := end(); err == nil || !strings.Contains(err.Error(), "nothing is printed") || output.String() != "" {
		t.Errorf("error %v, printed %q", err, output.String())
	}
}

// Keys are valid, and revoked, while the process runs; that of the last key too.
func TestServeFollowsKeys(t *testing.T) {
	p := servePlace(t)
	if got := p.status("none"); got != http.StatusUnauthorized {
		t.Errorf("without a key: %d", got)
	}
	create := func(id string) string {
		return run(t, "", "keys", "create", "-config", p.dir, "-account", "acme", "-id", id).want(t)
	}
	one, two := create("one"), create("two")
	p.awaitStatus(two, http.StatusOK)
	p.awaitStatus(one, http.StatusOK)
	run(t, "", "keys", "revoke", "-config", p.dir, "one").want(t)
	p.awaitStatus(one, http.StatusUnauthorized)
	if got := p.status(two); got != http.StatusOK {
		t.Errorf("the other key: %d", got)
	}
	run(t, "", "keys", "revoke", "-config", p.dir, "two").want(t)
	p.awaitStatus(two, http.StatusUnauthorized)
}

// Documents of several files come into force as one change.
func TestServeFollowsAppliedDocuments(t *testing.T) {
	p := servePlace(t)
	before := p.config()
	if before.Source != "files at "+p.dir {
		t.Errorf("the documents are from %q", before.Source)
	}
	const change = "key: models/m\npool: p\nmax_body: 1MiB\n---\nkey: pools/p\nqueue: {limit: 3}\n---\nkey: accounts/a\nweight: 2\n"
	run(t, change, "config", "apply", "-config", p.dir, "-").want(t, "applied models/m", "applied pools/p", "applied accounts/a")
	testkit.WaitFor(t, "a change", func() bool { return p.config().Revision > before.Revision })
	if c := p.config(); c.Revision != before.Revision+1 || len(c.Rejected) > 0 {
		t.Errorf("revision %d, then %d; rejected %v", before.Revision, c.Revision, c.Rejected)
	}
	run(t, "", "status", "-admin", p.admin).want(t, "local-1 at "+p.admin+", documents: files at "+p.dir, "p in local  server local-1", "0/3", "sim")
	run(t, "", "route", "explain", "m", "-admin", p.admin).want(t, "local")
	run(t, "", "route", "explain", "none", "-admin", p.admin).fail(t, "entry "+p.admin+": there is no model \"none\"")
	if out := run(t, "", "config", "status", "-admin", p.admin).want(t, "no problems"); strings.Contains(out, "etcd") {
		t.Errorf("got\n%s", out)
	}
}

// A bad document is reported with its file and line, and can be put right by a command.
func TestServeReportsBadDocuments(t *testing.T) {
	p := servePlace(t)
	bad := writeTo(t, p.dir, "pools.yaml", "# small\nkey: pools/p\nqueue:\n  limit: -3\n")
	testkit.WaitFor(t, "a rejection", func() bool { return len(p.config().Rejected) > 0 })
	want := []string{p.admin + ": " + bad + ":4: pools/p: queue.limit: must be at least 0; nothing of it is in force", "1 error found"}
	run(t, "", "config", "status", "-admin", p.admin).fail(t, want...)
	run(t, "", "status", "-admin", p.admin).fail(t, append(want, "p in local")...)
	r := run(t, "", "config", "status", "-admin", p.admin, "-json")
	var state fleetState
	if err := json.Unmarshal([]byte(r.out), &state); err != nil || r.err == nil || len(state.Problems) != 1 || state.Problems[0].Subject != "pools/p" {
		t.Errorf("%v, %v: %s", err, r.err, r.out)
	}
	run(t, "key: pools/p\nqueue: {limit: 3}\n", "config", "apply", "-config", p.dir, "-").want(t, "applied pools/p at "+bad+":1")
	testkit.WaitFor(t, "no rejection", func() bool { return len(p.config().Rejected) == 0 })
	run(t, "", "config", "status", "-admin", p.admin).want(t, "no problems")
	if names, err := os.ReadDir(p.dir); err != nil || len(names) != 2 || names[1].Name() != filepath.Base(bad) {
		t.Errorf("%v, %v", names, err)
	}
}
