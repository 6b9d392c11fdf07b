package fleettest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"time"

	"colonnade/admission"
	"colonnade/internal/testkit"
)

// IsReady asks an admin listener.
func (f *Fleet) IsReady(admin string) bool {
	r, err := http.Get("http://" + admin + "/health/ready")
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// EndpointState returns what the colo makes of an engine.
func (f *Fleet) EndpointState(url string) string {
	for _, e := range f.Pool("ams", "demo").Endpoints {
		if e.URL == url {
			return e.State
		}
	}
	return ""
}

// LiveHeap is what this process holds.
func LiveHeap() int64 {
	runtime.GC()
	runtime.GC() // what pools held survives one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) // and not HeapInuse, which has the holes in half-empty spans too
}

// Pool asks the server of a colo how a pool is.
func (f *Fleet) Pool(colo, name string) admission.State {
	f.T.Helper()
	for _, p := range f.Pools(colo) {
		if p.Pool == name {
			return p
		}
	}
	f.T.Fatalf("no pool %s in %s", name, colo)
	return admission.State{}
}

// Pools asks the server of a colo how its pools are.
func (f *Fleet) Pools(colo string) []admission.State {
	f.T.Helper()
	for _, n := range f.Colos {
		if n.Colo != colo {
			continue
		}
		r, err := f.Client.Get("http://" + n.Admin + "/debug/pools")
		if err != nil {
			f.T.Fatal(err)
		}
		defer r.Body.Close()
		var pools []admission.State
		if err := json.NewDecoder(r.Body).Decode(&pools); err != nil {
			f.T.Fatal(err)
		}
		return pools
	}
	f.T.Fatalf("no colo %s", colo)
	return nil
}

// FleetPage is what a node shows of its table.
type FleetPage struct {
	Revision      int64
	Documents     map[string]Tree
	Rejected      []Rejection
	Conflicts     []map[string]string
	Held, Suspect []string
}

type Rejection struct {
	Key      string
	LastGood bool `json:"last_good"`
}

// Field returns a field of a document, by its path; nil if it is not there.
func (p FleetPage) Field(key string, path ...string) any {
	var at any = p.Documents[key]
	if doc, ok := p.Documents[key]; !ok || doc == nil {
		return nil
	}
	for _, name := range path {
		fields, _ := at.(map[string]any)
		at = fields[name]
	}
	return at
}

// Admins returns the admin listeners of all nodes, by node.
func (f *Fleet) Admins() map[string]string {
	all := map[string]string{f.Entry.Node: f.Entry.Admin}
	for _, n := range f.Colos {
		all[n.Node] = n.Admin
	}
	return all
}

func (f *Fleet) FleetPage(admin string) FleetPage {
	f.T.Helper()
	r, err := f.Client.Get("http://" + admin + "/debug/fleet")
	if err != nil {
		f.T.Fatal(err)
	}
	defer r.Body.Close()
	var p FleetPage
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		f.T.Fatal(err)
	}
	return p
}

// ExpectEverywhere waits until a condition holds at every node, which must be so within a second.
func (f *Fleet) ExpectEverywhere(what string, holds func(node string, p FleetPage) bool) {
	f.T.Helper()
	began := time.Now()
	for _, name := range slices.Sorted(maps.Keys(f.Admins())) {
		testkit.Within(f.T, time.Second, what+" at "+name, func() bool { return holds(name, f.FleetPage(f.Admins()[name])) })
	}
	f.T.Logf("%s: everywhere after %v", what, time.Since(began).Round(time.Millisecond))
}

// ExpectSoon waits until a condition holds that shows that a change is in force, which must be so within a second.
func (f *Fleet) ExpectSoon(what string, holds func() bool) {
	f.T.Helper()
	began := time.Now()
	testkit.Within(f.T, time.Second, what, holds)
	f.T.Logf("%s: after %v", what, time.Since(began).Round(time.Millisecond))
}

// Metric returns the value of a metric without labels at a node.
func (f *Fleet) Metric(admin, name string) (value float64) {
	f.T.Helper()
	r, err := f.Client.Get("http://" + admin + "/metrics")
	if err != nil {
		f.T.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		f.T.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			if _, err := fmt.Sscan(string(rest), &value); err == nil {
				return value
			}
		}
	}
	f.T.Fatalf("no metric %s", name)
	return 0
}

// Tree is a document, or a part of one.
type Tree = map[string]any
