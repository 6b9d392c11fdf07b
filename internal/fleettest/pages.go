package fleettest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"colonnade/internal/testkit"
	"colonnade/permits"
)

// Admins returns the addresses of the admin listeners, by node.
func (f *Fleet) Admins() map[string]string {
	all := map[string]string{f.Entry.Node: f.Entry.Admin}
	for _, n := range f.Colos {
		all[n.Node] = n.Admin
	}
	return all
}

// IsReady reports whether a listener answers its readiness probe with 200.
func (f *Fleet) IsReady(address string) bool {
	status, _ := testkit.Get("http://" + address + "/health/ready")
	return status == http.StatusOK
}

// Page reads a page of an admin listener.
func (f *Fleet) Page(admin, path string) []byte {
	f.T.Helper()
	r, err := f.Client.Get("http://" + admin + path)
	if err != nil {
		f.T.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		f.T.Fatal(err)
	}
	return text
}

// Metric returns the value of a metric at a node, by its name and labels as the page shows them, but for the label role. That of the entry
// is preferred if the entry and the colo server are one process.
func (f *Fleet) Metric(admin, name string) (value float64) {
	f.T.Helper()
	page := string(f.Page(admin, "/metrics"))
	for _, role := range []string{"entry", "colo"} {
		for line := range strings.Lines(metricsOf(page, role)) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				if _, err := fmt.Sscan(rest, &value); err == nil {
					return value
				}
			}
		}
	}
	f.T.Fatalf("no metric %s", name)
	return 0
}

// EntryMetrics returns the metrics of the entry, as text without the label role.
func (f *Fleet) EntryMetrics() string {
	f.T.Helper()
	return metricsOf(string(f.Page(f.Entry.Admin, "/metrics")), "entry")
}

// metricsOf returns the lines of a page that are about the node or about one role, without the label role.
func metricsOf(page, role string) string {
	var own strings.Builder
	for line := range strings.Lines(page) {
		if line = withoutLabel(line, fmt.Sprintf("role=%q", role)); !strings.Contains(line, `role="`) {
			own.WriteString(line)
		}
	}
	return own.String()
}

// withoutLabel removes a label from a line of metrics. The other labels of the line, if it has any, keep their order.
func withoutLabel(line, label string) string {
	for _, form := range [][2]string{{"{" + label + "}", ""}, {"{" + label + ",", "{"}, {"," + label, ""}} {
		if before, after, found := strings.Cut(line, form[0]); found {
			return before + form[1] + after
		}
	}
	return line
}

// Pools returns the state of a colo's pools, each as its home shows it, or if it has none for a moment, as any server does.
func (f *Fleet) Pools(colo string) (pools []permits.Stats) {
	f.T.Helper()
	shown := f.PoolPages(colo)
	slices.SortStableFunc(shown, func(a, b PoolPage) int {
		switch {
		case a.Pool != b.Pool:
			return strings.Compare(a.Pool, b.Pool)
		case a.Here == b.Here:
			return 0
		case a.Here:
			return -1
		}
		return 1
	})
	for _, p := range slices.CompactFunc(shown, func(a, b PoolPage) bool { return a.Pool == b.Pool }) {
		pools = append(pools, p.Stats)
	}
	return pools
}

// PoolPage is a pool as one server of its colo shows it.
type PoolPage struct {
	Node      string
	Home      string
	Here      bool
	Ownership []struct {
		URL, State, Owner, Why string
		BlockedBy              string `json:"blocked_by"`
		HeldElsewhere          int    `json:"held_elsewhere"`
	}
	permits.Stats
}

// PoolPages returns what the servers of a colo show of its pools. Servers that have ended are left out.
func (f *Fleet) PoolPages(colo string) (pages []PoolPage) {
	f.T.Helper()
	asked := 0
	for _, n := range f.Colos {
		if n.Colo != colo || f.HasEnded(n.Node) {
			continue
		}
		var pools []PoolPage
		if err := json.Unmarshal(f.Page(n.Admin, "/debug/pools"), &pools); err != nil {
			f.T.Fatal(err)
		}
		pages, asked = append(pages, pools...), asked+1
	}
	if asked == 0 {
		f.T.Fatalf("no server in colo %s", colo)
	}
	return pages
}

// Pool returns the state of one pool.
func (f *Fleet) Pool(colo, name string) permits.Stats {
	f.T.Helper()
	for _, p := range f.Pools(colo) {
		if p.Pool == name {
			return p
		}
	}
	f.T.Fatalf("no pool %s in %s", name, colo)
	return permits.Stats{}
}

// Endpoint returns the state of an engine of the demo's pool in ams, by its URL; the zero value if the pool has it no longer.
func (f *Fleet) Endpoint(url string) permits.EndpointStats {
	f.T.Helper()
	for _, e := range f.Pool("ams", "demo").Endpoints {
		if e.URL == url {
			return e
		}
	}
	return permits.EndpointStats{}
}

// EndpointState returns the health of an engine of the demo's pool in ams, by its URL.
func (f *Fleet) EndpointState(url string) string { return f.Endpoint(url).State }

// Tree is a document, or a part of one, as JSON decodes it.
type Tree = map[string]any

// FleetPage is a node's /debug/fleet: its table, and what is wrong with the documents.
type FleetPage struct {
	Revision         int64
	Documents        map[string]Tree
	Rejected         []Rejection
	Conflicts        []map[string]string
	PendingDeletions []string `json:"pending_deletions"`
	ExpiredLeases    []string `json:"expired_leases"`
}

// Rejection is a document that a node does not accept.
type Rejection struct {
	Key      string
	LastGood bool `json:"last_good"`
}

// FleetPage reads a node's /debug/fleet.
func (f *Fleet) FleetPage(admin string) (p FleetPage) {
	f.T.Helper()
	if err := json.Unmarshal(f.Page(admin, "/debug/fleet"), &p); err != nil {
		f.T.Fatal(err)
	}
	return p
}

// Field returns a field of a document, by its path; nil if it is not there.
func (p FleetPage) Field(key string, path ...string) any {
	doc := p.Documents[key]
	if doc == nil {
		return nil
	}
	var at any = doc
	for _, name := range path {
		fields, _ := at.(map[string]any)
		at = fields[name]
	}
	return at
}

// ExpectEverywhere expects that a condition holds at every node within a second.
func (f *Fleet) ExpectEverywhere(what string, holds func(node string, p FleetPage) bool) {
	f.T.Helper()
	began := time.Now()
	for _, name := range slices.Sorted(maps.Keys(f.Admins())) {
		testkit.Within(f.T, time.Second, what+" at "+name, func() bool { return holds(name, f.FleetPage(f.Admins()[name])) })
	}
	f.T.Logf("%s: everywhere after %v", what, time.Since(began).Round(time.Millisecond))
}

// ExpectSoon expects that a condition holds within a second: one that shows that a change is in force.
func (f *Fleet) ExpectSoon(what string, holds func() bool) {
	f.T.Helper()
	began := time.Now()
	testkit.Within(f.T, time.Second, what, holds)
	f.T.Logf("%s: after %v", what, time.Since(began).Round(time.Millisecond))
}
