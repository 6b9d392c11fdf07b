package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"colonnade/internal/testkit"
)

// startShip starts `colonnade ship` as a process of its own.
func startShip(t *testing.T, args ...string) *testkit.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"ship"}, args...)...)
	cmd.Env = append(os.Environ(), runAsCommand+"=1")
	return testkit.Start(t, cmd)
}

// shippedTo returns the event ids of the lines of files, in order.
func shippedTo(t *testing.T, paths ...string) (ids []string) {
	t.Helper()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e struct {
				ID string `json:"event_id"`
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.ID == "" {
				t.Fatalf("%s has the line %q: %v", path, line, err)
			}
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// wantAll checks that ids are those of the events 0 to n, each at least once.
func wantAll(t *testing.T, ids []string, n int) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	for i := range n {
		if !seen[fmt.Sprintf("%06d", i)] {
			t.Fatalf("the event %d has not arrived, of %d", i, n)
		}
	}
	if len(seen) != n {
		t.Errorf("%d different events have arrived, want %d", len(seen), n)
	}
}

// The nodes of a directory share a file: each event is there once, and each line whole, however often the file is full.
func TestShipNodesShareAFile(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "e.jsonl")
	nodes := []string{"ams-1", "ams-2", "fra-1"}
	for i, node := range nodes {
		appendEvents(t, openLog(t, dir, node), i*1000, (i+1)*1000)
	}
	run(t, "", "ship", "-data-dir", dir, "-once", "-give-up", "20s", "-sink", "file:"+path+"?max_bytes=16KiB&keep=10000&batch_events=7").want(t, "fra-1 → ", "1000 events shipped, 0 to go")
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 20 {
		t.Errorf("%d files, %v", len(files), err)
	}
	ids := shippedTo(t, files...)
	if wantAll(t, ids, 1000*len(nodes)); len(ids) != 1000*len(nodes) {
		t.Errorf("%d lines", len(ids))
	}
}

// Ctrl-C sends what waits for others of its batch, and is no failure.
func TestShipEndsByInterrupt(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "e.jsonl")
	l := openLog(t, dir, "ams-1")
	p := startShip(t, "-data-dir", dir, "-progress", "10ms", "-sink", "file:"+path+"?every=10m")
	appendEvents(t, l, 0, 10)
	testkit.WaitFor(t, "events that wait", func() bool { return strings.Contains(p.Output(), "0 events shipped, 10 to go") })
	if err := p.Stop(os.Interrupt); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if ids := shippedTo(t, path); len(ids) != 10 {
		t.Errorf("the file has %d events", len(ids))
	}
	run(t, "", "ship", "-data-dir", dir, "-once", "-sink", "file:"+path).want(t, "0 events shipped, 0 to go")
}

// Two processes do not ship under one name.
func TestShipTwice(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "e.jsonl")
	appendEvents(t, openLog(t, dir, "ams-1"), 0, 10)
	startShip(t, "-data-dir", dir, "-sink", "file:"+path+"?every=10ms&name=one")
	testkit.WaitFor(t, "the first events", func() bool { return len(shippedTo(t, path)) == 10 })
	run(t, "", "ship", "-data-dir", dir, "-once", "-sink", "file:"+path+".other?name=one").fail(t, "another process ships", "another name")
	run(t, "", "ship", "-data-dir", dir, "-once", "-sink", "file:"+path+".other?name=two").want(t, "10 events shipped, 0 to go")
	run(t, "", "ship", "-data-dir", dir, "-sink", "file:/x?name=a", "-sink", "file:/y?name=a").fail(t, "two sinks have the name a")
}

// The pages of -admin have what a node says about its sinks, for each node, and lines have how far a sink is behind.
func TestShipAdmin(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "e.jsonl")
	for i, name := range []string{"ams-1", "ams-2"} {
		appendEvents(t, openLog(t, dir, name), 0, 10*(i+1))
	}
	p := startShip(t, "-data-dir", dir, "-progress", "10ms", "-admin", "127.0.0.1:0", "-sink", "file:"+path+"?every=10ms&name=disk", "-sink", "http://127.0.0.1:1/?name=gone&every=10ms")
	address := ""
	testkit.WaitFor(t, "the address", func() bool {
		_, after, found := strings.Cut(p.Output(), "admin=")
		address, _, _ = strings.Cut(after, "\n")
		return found && address != ""
	})
	wants := func(page string, wants ...string) {
		t.Helper()
		testkit.WaitFor(t, strings.Join(wants, ", "), func() bool {
			_, text := testkit.Get("http://" + address + page)
			return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(text, want) })
		})
	}
	wants("/metrics", `colonnade_events_sink_shipped_total{node="ams-1",sink="disk"} 10`, `colonnade_events_sink_shipped_total{node="ams-2",sink="disk"} 20`,
		`colonnade_events_sink_lag_events{node="ams-2",sink="gone"} 20`, `colonnade_events_sink_lag_seconds{node="ams-2",sink="gone"}`)
	wants("/health/live", "live")
	wants("/health/ready?verbose", "ready\n", "ams-1 → gone: failing: cannot post to http://127.0.0.1:1: ")
	testkit.WaitFor(t, "a line with the age", func() bool {
		return strings.Contains(p.Output(), "ams-2 → gone: 0 events shipped, 20 to go, the oldest since ")
	})
	if err := p.Stop(os.Interrupt); err != nil {
		t.Errorf("it ended with %v", err)
	}
	run(t, "", "ship", "-data-dir", dir, "-once", "-admin", "256.0.0.1:1", "-sink", "file:"+path).fail(t, "-admin 256.0.0.1:1: cannot listen")
}

// A run that is to send everything and is ended before says so, and fails.
func TestShipOnceEndedEarly(t *testing.T) {
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		http.Error(w, "later", http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	appendEvents(t, openLog(t, dir, "ams-1"), 0, 10)
	p := startShip(t, "-data-dir", dir, "-once", "-sink", server.URL)
	<-asked
	if err := p.Stop(syscall.SIGTERM); err == nil {
		t.Error("it ended as if everything had been sent")
	}
	if want := "before sink"; !strings.Contains(p.Output(), want) {
		t.Errorf("its output lacks %q: %s", want, p.Output())
	}
}

// ids is an HTTP receiver that keeps the ids of events.
type ids struct {
	mu  sync.Mutex // guards the fields below
	all []string
}

func (r *ids) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := gzip.NewReader(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var batch []string
	scanner := bufio.NewScanner(body)
	for scanner.Scan() {
		var e struct {
			ID string `json:"event_id"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		batch = append(batch, e.ID)
	}
	if scanner.Err() != nil { // the process was killed while it sent
		http.Error(w, scanner.Err().Error(), http.StatusInternalServerError)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, batch...)
}

func (r *ids) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.all...)
}

// A process that is killed at any moment, and runs again, forgets no event. Events that come twice have the same id.
func TestShipKilled(t *testing.T) {
	receiver := &ids{}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "e.jsonl")
	f := func(sink string, got func() []string) {
		t.Helper()
		dir, appended := t.TempDir(), 0
		l := openLog(t, dir, "ams-1")
		for round := range testkit.AtScale(6, 20) {
			p := startShip(t, "-data-dir", dir, "-sink", sink+"?batch_events=5&every=10ms")
			appendEvents(t, l, appended, appended+500)
			appended += 500
			testkit.WaitFor(t, "some events", func() bool { return len(got()) >= appended-500+37*round })
			if err := p.Stop(syscall.SIGKILL); err == nil {
				t.Error("it ended by itself")
			}
		}
		run(t, "", "ship", "-data-dir", dir, "-once", "-sink", sink+"?name="+nameOfSink(t, dir)).want(t, "0 to go")
		all := got()
		t.Logf("%s: %d of %d events came again", sink, len(all)-appended, appended)
		wantAll(t, all, appended)
	}
	f(server.URL, receiver.got)
	f("file:"+path, func() []string {
		text, _ := os.ReadFile(path)
		whole := text[:strings.LastIndexByte(string(text), '\n')+1]
		copied := path + ".whole"
		if err := os.WriteFile(copied, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		return shippedTo(t, copied)
	})
}

// nameOfSink returns the name of the only sink of a data directory.
func nameOfSink(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "ship", "ams-1", "*.json"))
	if err != nil || len(all) != 1 {
		t.Fatalf("%q, %v", all, err)
	}
	return strings.TrimSuffix(filepath.Base(all[0]), ".json")
}
