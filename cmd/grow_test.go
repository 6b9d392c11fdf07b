package cmd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// grownPlace is one process for one place, which grows into a fleet. Its documents are in a file; clients have the key testKey.
type grownPlace struct {
	*processes

	place   *member // serves alone at first
	file    string  // in documents
	slots   int     // of each engine
	engines []string
}

// startPlace starts two engines and one process that serves them.
func startPlace(t *testing.T, slots int) *grownPlace {
	t.Helper()
	dir := t.TempDir()
	g := &grownPlace{
		processes: &processes{t: t, keyFile: testkit.KeyFile(t), dir: dir, colos: map[string]*member{}},
		slots:     slots, file: filepath.Join(dir, "documents", "place.yaml"),
	}
	if err := os.Mkdir(filepath.Dir(g.file), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		at := etcdtest.FreeAddress(t)
		start(t, "colonnade", "engine", "-listen", at, "-slots", fmt.Sprint(slots), "-ttft", "5ms", "-itl", "30ms")
		awaitEngine(t, at)
		g.engines = append(g.engines, at)
	}
	g.write(slots)
	g.place = &member{t: t, binary: "colonnade", address: etcdtest.FreeAddress(t), admin: etcdtest.FreeAddress(t), dir: filepath.Join(dir, "place")}
	g.place.args = []string{
		"serve", "-config", filepath.Dir(g.file), "-listen", g.place.address, "-admin", g.place.admin, "-data-dir", g.place.dir, "-drain", "10s",
	}
	g.place.start()
	g.ready(g.place)
	return g
}

// write writes the documents, with so many slots of each engine.
func (g *grownPlace) write(slots int) {
	g.t.Helper()
	b := new(strings.Builder)
	fmt.Fprintf(b, "key: models/tiny\npool: tiny\ntimeouts: {connect: 30s}\n---\nkey: pools/tiny\nqueue: {max_wait: 2m}\n---\nkey: colos/lab\n"+
		"---\nkey: keys/test\naccount: acme\nsha256: %q\n", keyHash(testKey))
	for i, at := range g.engines {
		fmt.Fprintf(b, "---\nkey: endpoints/lab/%d\nurl: http://%s\npool: tiny\nconcurrency: %d\n", i+1, at, slots)
	}
	if err := os.WriteFile(g.file, []byte(b.String()), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// split writes half of the slots of each engine, and waits until the place has no more requests than that on any engine.
func (g *grownPlace) split() {
	g.t.Helper()
	g.write(g.slots / 2)
	testkit.WaitFor(g.t, "the place to have half of each engine", func() bool { return g.atMost(g.place, g.slots/2) })
}

// atMost reports whether a node has so many slots on each engine, and no more requests.
func (g *grownPlace) atMost(m *member, slots int) bool {
	var pools []struct {
		Endpoints []struct{ Concurrency, Held int }
	}
	_, page := testkit.Get("http://" + m.admin + "/debug/pools")
	if json.Unmarshal([]byte(page), &pools) != nil || len(pools) != 1 || len(pools[0].Endpoints) != len(g.engines) {
		return false
	}
	for _, e := range pools[0].Endpoints {
		if e.Concurrency != slots || e.Held > slots {
			return false
		}
	}
	return true
}

// startNodes applies the documents of the place to an etcd, and starts an entry and a colo server.
func (g *grownPlace) startNodes() {
	g.t.Helper()
	g.etcd = "http://" + etcdtest.Start(g.t).Address
	g.applyFile()
	g.colos["lab"] = g.node("colo", "lab-2", layout{}, "-colo", "lab")
	g.entry = g.node("entry", "edge-1", layout{})
	g.ready(g.colos["lab"])
	g.ready(g.entry)
	g.waitServers(1)
}

func (g *grownPlace) applyFile() {
	g.t.Helper()
	if out, err := run(g.t, "colonnade", "config", "apply", "-etcd", g.etcd, g.file); err != nil {
		g.t.Fatalf("config apply: %v\n%s", err, out)
	}
}

// checkPeaks fails the test if an engine has ever had more requests than slots, or never as many.
func (g *grownPlace) checkPeaks() {
	g.t.Helper()
	for _, at := range g.engines {
		var stats struct{ Peak, Aborted int }
		_, page := testkit.Get("http://" + at + "/stats")
		if err := json.Unmarshal([]byte(page), &stats); err != nil || stats.Peak != g.slots || stats.Aborted != 0 {
			g.t.Errorf("the engine at %s, with %d slots: %s", at, g.slots, page)
		}
	}
}

// A place that one process serves becomes a fleet under load, as docs/grow.md describes it: the limits are split, the same
// documents go to etcd, an entry and a colo server start, clients move to the entry, and the process is drained. Every request is served,
// streams that run meanwhile included, and no engine ever has more requests than slots.
func TestPlaceGrowsIntoFleet(t *testing.T) {
	t.Parallel()
	g := startPlace(t, 4)
	old := startRawClients(g.place.address, 10)
	g.waitServed(old, 100)
	long := g.openStreams(g.place, "before-", 6) // more than half of the slots, for two seconds
	g.split()
	g.startNodes()

	moved := startRawClients(g.entry.address, 10) // beside those that have not moved yet
	g.waitServed(moved, 50)
	g.waitServed(old, 50)
	long = append(long, g.openStreams(g.place, "during-", 2)...)
	seen := old.end(true)
	ended := make(chan error, 1)
	go func() { ended <- g.place.Stop(syscall.SIGTERM) }()
	g.waitServed(moved, 50)
	for _, s := range long {
		if s.read(false); s.err != nil || !strings.HasSuffix(s.text, "data: [DONE]\n\n") {
			t.Errorf("the stream %s ended with %v, %q", s.id, s.err, s.text[max(0, len(s.text)-300):])
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the place ended with %v\n%s", err, g.place.Output())
	}

	g.write(g.slots)
	g.applyFile()
	testkit.WaitFor(t, "the colo server to have all slots", func() bool { return g.atMost(g.colos["lab"], g.slots) })
	g.waitServed(moved, 100)
	g.checkEnd(seen, moved.end(true), long)
}

// openStreams opens long streams, which wait in the queue if they have to.
func (g *grownPlace) openStreams(at *member, prefix string, n int) (streams []*stream) {
	g.t.Helper()
	for i := range n {
		c, err := dial(at.address)
		if err != nil {
			g.t.Fatal(err)
		}
		g.t.Cleanup(func() { c.Close() })
		s := &stream{socket: c, id: fmt.Sprint("stream-", prefix, i)}
		if s.answer, err = c.ask(s.id, longStream, true); err != nil || s.answer.StatusCode != http.StatusOK {
			g.t.Fatalf("the stream %s: %v, %v", s.id, s.answer, err)
		}
		streams = append(streams, s)
	}
	return streams
}

// checkEnd compares what the clients have seen with the engines and with the events of all processes.
func (g *grownPlace) checkEnd(old, moved map[string]int, long []*stream) {
	g.t.Helper()
	for _, seen := range []map[string]int{old, moved} {
		if len(seen) != 1 || seen["served"] == 0 {
			g.t.Errorf("clients saw %v, want only served requests", seen)
		}
	}
	g.checkPeaks()
	_ = g.colos["lab"].Signal(syscall.SIGTERM) // at once with the entry
	g.leaveProperly(g.entry)
	if err := g.colos["lab"].Wait(); err != nil {
		g.t.Errorf("the colo server ended with %v", err)
	}
	for _, m := range []struct {
		node  *member
		kinds []analytics.Kind
		want  int
	}{
		{g.place, []analytics.Kind{analytics.KindRequest, analytics.KindInference}, old["served"] + len(long)},
		{g.entry, []analytics.Kind{analytics.KindRequest}, moved["served"]},
		{g.colos["lab"], []analytics.Kind{analytics.KindInference}, moved["served"]},
	} {
		for _, kind := range m.kinds {
			_, byOutcome := finals(g.t, m.node, kind, "")
			if len(byOutcome) != 1 || byOutcome[analytics.OutcomeCompleted] != m.want {
				g.t.Errorf("%s: outcomes %v of kind %s, want %d completed", filepath.Base(m.node.dir), byOutcome, kind, m.want)
			}
		}
	}
}
