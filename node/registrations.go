package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"colonnade/admin/api"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/worker/wire"
)

const (
	mostRegistrations = 1000
	// mostRegistered bounds the documents of all registrations, in bytes.
	mostRegistered = 64 << 20
	// mostUnserved bounds those of them whose engines have gone.
	mostUnserved = 8 << 20
	// keepModels is how long models are known after their engines have gone, so that clients get 503 while an engine starts again, and not 404.
	keepModels = 24 * time.Hour
	// lapseInterval is how often registrations are looked through for those that were not renewed.
	lapseInterval = time.Second
)

// registrations keeps the engines that workers have registered at a process that serves one place: in memory, and in a file for the next
// process. It is safe for concurrent use.
type registrations struct {
	colo    string
	file    string // empty = none
	logger  *slog.Logger
	publish func([]document.Raw)          // takes all documents; called while mu is held
	valid   func(hash fleet.KeyHash) bool // whether the API key with this hash may still register engines
	answers func(url string) bool         // whether the health check of an engine succeeds

	mu       sync.Mutex // guards the fields below
	all      []*registered
	unserved []unservedModel
	size     int  // of all documents, in bytes
	unsaved  bool // the file lacks the newest documents
}

// registered is one registration.
type registered struct {
	Node     string         `json:"node"`
	Boot     string         `json:"boot"`
	KeyHash  *fleet.KeyHash `json:"key_hash,omitempty"` // of the API key that authorised it; nil = a token of an operator
	Worker   document.Raw   `json:"worker"`
	Endpoint document.Raw   `json:"endpoint"`
	URL      string         `json:"url"`    // of the engine; empty = it has not answered yet
	Serves   bool           `json:"serves"` // the engine may get requests
	Models   []document.Raw `json:"models"`

	renewed time.Time
	lapsed  bool // not renewed for a TTL; the engine still answers
}

// unservedModel is a document of a model or pool whose engines have gone.
type unservedModel struct {
	document.Raw
	Until time.Time `json:"until"`
}

// put takes or renews a registration.
func (g *registrations) put(r *api.Registration, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := newRegistered(r, now)
	at := slices.IndexFunc(g.all, func(other *registered) bool { return other.Node == next.Node })
	if err := g.checkLocked(next, at, now); err != nil {
		return err
	}
	replaced := g.replaceLapsedLocked(next, now)
	if replaced {
		at = slices.IndexFunc(g.all, func(other *registered) bool { return other.Node == next.Node })
	}
	if at < 0 {
		g.logger.Info("worker registered", "worker", next.Node, "by", r.By)
		g.logEngine(nil, next)
		g.all = append(g.all, next)
		g.changedLocked()
		return nil
	}
	before := g.all[at]
	if before.lapsed {
		g.logger.Info("registration renewed again", "worker", next.Node, "endpoint", next.Endpoint.Key)
	}
	g.logEngine(before, next)
	g.all[at] = next
	if replaced || before.lapsed || !before.same(next) {
		g.keepModelsLocked(before, now)
		g.changedLocked()
	}
	return nil
}

// logEngine logs the engine of a registration once it has one: its worker registers first, and waits until it answers.
func (g *registrations) logEngine(before, next *registered) {
	if next.Endpoint.Key != "" && (before == nil || before.Endpoint.Key == "") {
		g.logger.Info("engine registered by a worker", "worker", next.Node, "endpoint", next.Endpoint.Key, "url", next.URL)
	}
}

func newRegistered(r *api.Registration, now time.Time) *registered {
	next := &registered{Node: r.Worker.Node, Boot: r.Worker.Boot, Worker: r.Documents[0], Models: r.Models, renewed: now}
	next.KeyHash = holderOf(r).key
	if r.Endpoint != nil {
		next.Endpoint, next.URL, next.Serves = r.Documents[1], r.Endpoint.URL, r.Endpoint.Serves()
	}
	return next
}

// checkLocked returns why a registration cannot be taken in the place of the one with the index at, which is negative if there is none.
func (g *registrations) checkLocked(next *registered, at int, now time.Time) error {
	size := g.size + next.size()
	if at >= 0 {
		before := g.all[at]
		same := before.holder().is(next.holder())
		if !same && now.Sub(before.renewed) < wire.TTL {
			return taken(next.Node)
		}
		if err := checkSame(before.Endpoint.Key, next.Endpoint.Key); same && err != nil {
			return err
		}
		size -= before.size()
	}
	for _, other := range g.all {
		switch {
		case other.lapsed || !other.clashes(next):
		case other.Endpoint.Key == next.Endpoint.Key:
			return &api.Error{Status: http.StatusConflict, Field: "endpoint.key", Message: fmt.Sprintf(
				"endpoint.key: the worker %s has registered %s: give this one another -id, or stop that one", other.Node, other.Endpoint.Key)}
		default:
			return &api.Error{Status: http.StatusConflict, Field: "endpoint.url", Message: fmt.Sprintf(
				"endpoint.url: the worker %s has registered %s as %s: give each worker an engine of its own, or stop that one", other.Node, other.URL, other.Endpoint.Key)}
		}
	}
	if at < 0 && len(g.all) >= mostRegistrations || size > mostRegistered {
		return &api.Error{Status: http.StatusConflict, Message: fmt.Sprintf(
			"this process takes at most %d registrations with %d MiB of documents: serve larger places by colo servers", mostRegistrations, mostRegistered>>20)}
	}
	return nil
}

// replaceLapsedLocked removes registrations of workers that have gone and whose engine another worker has now, and reports whether there was one.
func (g *registrations) replaceLapsedLocked(next *registered, now time.Time) (some bool) {
	for at := len(g.all) - 1; at >= 0; at-- {
		if old := g.all[at]; old.lapsed && old.clashes(next) {
			g.logger.Info("engine of a worker that has gone is registered by another", "worker", next.Node, "before", old.Node, "url", next.URL)
			g.removeLocked(at, now)
			some = true
		}
	}
	return some
}

// holder is who has a registration. The boot id of a process is no secret: others see it in the worker's document.
type holder struct {
	boot string
	key  *fleet.KeyHash // of the API key that authorised it; nil = a token of an operator
}

func holderOf(r *api.Registration) holder {
	h := holder{boot: r.Worker.Boot}
	if r.APIKey != nil {
		h.key = &r.APIKey.SHA256
	}
	return h
}

func (h holder) is(other holder) bool {
	return h.boot == other.boot && (h.key == nil) == (other.key == nil) && (h.key == nil || *h.key == *other.key)
}

// mayRemove reports whether a DELETE ends the registration: by an operator, with an empty boot that of any process, or else by its own API key.
func (h holder) mayRemove(boot string, key *fleet.APIKey) bool {
	if key == nil {
		return boot == "" || boot == h.boot
	}
	return h.is(holder{boot, &key.SHA256})
}

// checkSame refuses another endpoint under a registration that stands.
func checkSame(before, next string) error {
	if before == next || before == "" || next == "" {
		return nil
	}
	return &api.Error{Status: http.StatusBadRequest, Field: "worker.engine.endpoint", Message: fmt.Sprintf(
		"worker.engine.endpoint: this process has registered %s, and %.200s now: end that registration first, or register under another node", before, next)}
}

// taken says that another process has the name of a worker.
func taken(node string) *api.Error {
	return &api.Error{Status: http.StatusConflict, Field: "worker.boot", Message: fmt.Sprintf(
		"another process, or this one by another key, is registered as the worker %s: stop it, or start this one with another -node; one that was killed stays registered for %d s",
		node, int(wire.TTL.Seconds()))}
}

func (r *registered) holder() holder { return holder{r.Boot, r.KeyHash} }

// remove ends a registration; an empty boot is that of any process.
func (g *registrations) remove(node, boot string, key *fleet.APIKey, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.IndexFunc(g.all, func(r *registered) bool { return r.Node == node })
	switch {
	case at < 0:
		return nil
	case !g.all[at].holder().mayRemove(boot, key):
		return taken(node)
	}
	g.logger.Info("registration ended by the worker", "worker", node, "endpoint", g.all[at].Endpoint.Key)
	g.removeLocked(at, now)
	g.changedLocked()
	return nil
}

func (g *registrations) removeLocked(at int, now time.Time) {
	gone := g.all[at]
	g.all = slices.Delete(g.all, at, at+1)
	g.keepModelsLocked(gone, now)
}

// keepModelsLocked keeps the models of a registration that no other one has.
func (g *registrations) keepModelsLocked(gone *registered, now time.Time) {
	for _, d := range gone.Models {
		g.unserved = slices.DeleteFunc(g.unserved, func(m unservedModel) bool { return m.Key == d.Key })
		if !slices.ContainsFunc(g.all, func(r *registered) bool { return r.hasModel(d.Key) }) {
			g.unserved = append(g.unserved, unservedModel{d, now.Add(keepModels)})
		}
	}
	size := 0
	for at := len(g.unserved) - 1; at >= 0; at-- { // the newest are kept
		if size += len(g.unserved[at].Key) + len(g.unserved[at].Value); size > mostUnserved || len(g.unserved)-at > wire.MaxModels {
			g.unserved = slices.Delete(g.unserved, 0, at+1)
			return
		}
	}
}

// sweep ends what was not renewed in time, and at once what was registered by an API key that is not valid any more. An engine stays while it
// answers, as in a fleet with etcd.
func (g *registrations) sweep(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for at := len(g.all) - 1; at >= 0; at-- {
		r := g.all[at]
		if now.Sub(r.renewed) < wire.TTL && g.hasValidKey(r) {
			continue
		}
		why := g.whyGone(r)
		switch {
		case why != "":
			g.logger.Warn("registration ended; its engine gets no more requests", "worker", r.Node, "endpoint", r.Endpoint.Key, "reason", why)
			g.removeLocked(at, now)
			changed = true
		case !r.lapsed:
			g.logger.Warn("registration is not renewed; its engine stays while its health check succeeds", "worker", r.Node, "endpoint", r.Endpoint.Key)
			r.lapsed, changed = true, true
		}
	}
	kept := slices.DeleteFunc(g.unserved, func(m unservedModel) bool { return !now.Before(m.Until) })
	if changed = changed || len(kept) < len(g.unserved); changed {
		g.unserved = kept
		g.changedLocked()
	}
	g.saveLocked()
}

// whyGone returns why the engine of a registration that was not renewed gets no more requests; empty = it may.
func (g *registrations) whyGone(r *registered) string {
	switch {
	case !g.hasValidKey(r):
		return "the API key of its worker is not valid any more"
	case !r.Serves:
		return "its worker has said that it takes no more requests"
	case !g.answers(r.URL):
		return "its health check fails"
	}
	return ""
}

func (g *registrations) hasValidKey(r *registered) bool {
	return r.KeyHash == nil || g.valid(*r.KeyHash)
}

// changedLocked publishes all documents. Of two with one key, the first is in force.
func (g *registrations) changedLocked() {
	var docs []document.Raw
	for _, r := range g.all {
		if !r.lapsed {
			docs = append(docs, r.Worker)
		}
		if r.Endpoint.Key != "" {
			docs = append(docs, r.Endpoint)
		}
		docs = append(docs, r.Models...)
	}
	for _, m := range g.unserved {
		docs = append(docs, m.Raw)
	}
	g.size = sizeOf(docs)
	g.unsaved = true
	g.publish(docs)
}

// run ends registrations that are not renewed, until ctx is done.
func (g *registrations) run(ctx context.Context) error {
	tick := time.NewTicker(lapseInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.sweep(time.Now())
		case <-ctx.Done():
			g.mu.Lock()
			defer g.mu.Unlock()
			g.saveLocked()
			return nil
		}
	}
}

// clashes reports whether another worker has an endpoint with the key or the URL of r's.
func (r *registered) clashes(other *registered) bool {
	return r.Node != other.Node && other.Endpoint.Key != "" && (r.Endpoint.Key == other.Endpoint.Key || r.URL == other.URL)
}

func (r *registered) hasModel(key string) bool {
	return slices.ContainsFunc(r.Models, func(d document.Raw) bool { return d.Key == key })
}

func (r *registered) size() int {
	return sizeOf(r.Models) + len(r.Worker.Value) + len(r.Endpoint.Value)
}

func sizeOf(docs []document.Raw) (n int) {
	for _, d := range docs {
		n += len(d.Key) + len(d.Value)
	}
	return n
}

// same reports whether two registrations have the same documents and the same right to them.
func (r *registered) same(other *registered) bool {
	alike := func(a, b document.Raw) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }
	return r.holder().is(other.holder()) && alike(r.Worker, other.Worker) && alike(r.Endpoint, other.Endpoint) && slices.EqualFunc(r.Models, other.Models, alike)
}
