package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/admin/api"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/worker/wire"
)

// memory is registrations with what they have published, and a clock.
type memory struct {
	*registrations
	t         *testing.T
	now       time.Time
	published []string // keys
	docs      []document.Raw
	revoked   bool // the API key
	dead      bool // the engines
}

func newMemory(t *testing.T, file string) *memory {
	m := &memory{t: t, now: time.Unix(1e9, 0)}
	m.registrations = &registrations{
		colo: "local", file: file, logger: slog.New(slog.DiscardHandler),
		valid:   func(fleet.KeyHash) bool { return !m.revoked },
		answers: func(string) bool { return !m.dead },
		publish: func(docs []document.Raw) {
			m.docs, m.published = docs, nil
			for _, d := range docs {
				m.published = append(m.published, d.Key)
			}
		},
	}
	return m
}

// registrationOf returns one of a worker with an engine of its own. A closed one takes no requests.
func registrationOf(node, boot string, closed bool, models ...string) *api.Registration {
	r := &api.Registration{By: "key gpus", APIKey: &fleet.APIKey{ID: "gpus", Role: fleet.RoleWorker, SHA256: fleet.KeyHash{7}}}
	r.Worker.Node, r.Worker.Boot = node, boot
	r.Endpoint = &fleet.Endpoint{URL: "http://" + node, Concurrency: 4}
	text := "url: http://" + node + "\npool: p\n"
	if closed {
		r.Endpoint.Concurrency, text = 0, text+"concurrency: 0\n"
	}
	r.Documents = []document.Raw{{Key: "workers/" + node, Value: []byte(boot)}, {Key: "endpoints/local/" + node, Value: []byte(text)}}
	for _, name := range models {
		r.Models = append(r.Models, document.Raw{Key: "models/" + name, Value: []byte("# of " + node)})
	}
	return r
}

func (m *memory) mustPut(r *api.Registration) {
	m.t.Helper()
	if err := m.put(r, m.now); err != nil {
		m.t.Fatal(err)
	}
}

// after lets time pass, and looks for registrations that were not renewed.
func (m *memory) after(d time.Duration) {
	m.now = m.now.Add(d)
	m.sweep(m.now)
}

func (m *memory) want(keys ...string) {
	m.t.Helper()
	if !slices.Equal(m.published, keys) {
		m.t.Errorf("published %q, want %q", m.published, keys)
	}
}

// A registration that is renewed stays. One that is not stays as an endpoint while its engine answers and its key is valid; its models stay known.
func TestRegistrationLapses(t *testing.T) {
	t.Parallel()
	for _, why := range []string{"", "dead", "revoked", "closed"} {
		m := newMemory(t, "")
		for range 3 {
			m.mustPut(registrationOf("a", "1", why == "closed", "m"))
			m.after(wire.TTL - time.Second)
			m.want("workers/a", "endpoints/local/a", "models/m")
		}
		m.dead, m.revoked = why == "dead", why == "revoked"
		if why == "revoked" { // no renewal saves it
			m.mustPut(registrationOf("a", "1", false, "m"))
			m.after(time.Second)
			m.want("models/m")
		}
		m.after(2 * time.Second)
		if why != "" {
			m.want("models/m")
			m.after(keepModels)
			m.want()
			continue
		}
		m.want("endpoints/local/a", "models/m")
		m.after(time.Hour)
		m.want("endpoints/local/a", "models/m")
		m.mustPut(registrationOf("a", "2", false, "m")) // another process by now
		m.want("workers/a", "endpoints/local/a", "models/m")
		if err := m.remove("a", "1", nil, m.now); err == nil {
			t.Error("another process has ended the registration")
		}
		if err := m.remove("a", "2", nil, m.now); err != nil {
			t.Error(err)
		}
		m.want("models/m")
	}
}

// A name and an endpoint belong to one worker at a time, and the error names the field.
func TestRegistrationTaken(t *testing.T) {
	t.Parallel()
	m := newMemory(t, "")
	m.mustPut(registrationOf("a", "1", false))
	refused := func(r *api.Registration, field, text string) {
		t.Helper()
		var failed *api.Error
		if err := m.put(r, m.now); !errors.As(err, &failed) || failed.Status != 409 || failed.Field != field || !strings.Contains(failed.Message, text) {
			t.Errorf("got %v", err)
		}
	}
	refused(registrationOf("a", "2", false), "worker.boot", "is registered as the worker a: stop it")
	other := registrationOf("b", "1", false)
	other.Documents[1].Key = "endpoints/local/a"
	refused(other, "endpoint.key", "the worker a has registered endpoints/local/a: give this one another -id")
	other = registrationOf("b", "1", false)
	other.Endpoint.URL = "http://a"
	refused(other, "endpoint.url", "the worker a has registered http://a as endpoints/local/a")
	another := registrationOf("a", "1", false) // the boot id is in the worker's document, so it is no secret
	another.APIKey = &fleet.APIKey{ID: "gpus", Role: fleet.RoleWorker, SHA256: fleet.KeyHash{8}}
	refused(another, "worker.boot", "this one by another key")
	if err := m.remove("a", "1", another.APIKey, m.now); err == nil {
		t.Error("another key has ended the registration")
	}
	another.APIKey = nil
	refused(another, "worker.boot", "this one by another key")
	elsewhere := registrationOf("a", "1", false)
	elsewhere.Documents[1].Key = "endpoints/local/z"
	if err := m.put(elsewhere, m.now); err == nil || !strings.Contains(err.Error(), "this process has registered endpoints/local/a, and endpoints/local/z now") {
		t.Errorf("got %v", err)
	}
	large := registrationOf("c", "1", false, "m")
	large.Models[0].Value = make([]byte, mostRegistered)
	refused(large, "", "64 MiB")
	m.now = m.now.Add(wire.TTL)
	m.mustPut(registrationOf("a", "2", false))
	for i := range mostRegistrations - 1 {
		m.mustPut(registrationOf(fmt.Sprint("w", i), "1", false))
	}
	refused(registrationOf("one-more", "1", false), "", "at most 1000 registrations")
}

// A registration that lapsed, whose engine still answers, gives way to another worker of the engine.
func TestLapsedRegistrationGivesWay(t *testing.T) {
	t.Parallel()
	for _, alike := range []string{"key", "URL"} {
		m := newMemory(t, "")
		m.mustPut(registrationOf("a", "1", false, "m"))
		next := registrationOf("b", "1", false, "m")
		if alike == "key" {
			next.Documents[1].Key = "endpoints/local/a"
		} else {
			next.Endpoint.URL = "http://a"
		}
		if err := m.put(next, m.now); err == nil {
			t.Errorf("the same %s was taken", alike)
		}
		m.after(wire.TTL)
		m.want("endpoints/local/a", "models/m")
		m.mustPut(next)
		m.want("workers/b", next.Documents[1].Key, "models/m", "models/m")
	}
}

// The models of engines that have gone are bounded: the newest are kept, and new engines have room.
func TestModelsOfGoneEnginesAreBounded(t *testing.T) {
	t.Parallel()
	m := newMemory(t, "")
	for i := range 20 {
		r := registrationOf("a", "1", false, fmt.Sprint("m", i))
		r.Models[0].Value = make([]byte, 1<<20)
		m.mustPut(r)
		_ = m.remove("a", "1", nil, m.now)
	}
	m.want("models/m13", "models/m14", "models/m15", "models/m16", "models/m17", "models/m18", "models/m19")
}

// Of two workers with one model, the first says what its document is; the document of a worker that is alone with its model is the newest.
func TestModelsOfWorkers(t *testing.T) {
	t.Parallel()
	m := newMemory(t, "")
	first := func() string {
		for _, d := range m.docs {
			if d.Key == "models/m" {
				return string(d.Value)
			}
		}
		return "none"
	}
	m.mustPut(registrationOf("a", "1", false, "m"))
	m.mustPut(registrationOf("b", "1", false, "m"))
	if got := first(); got != "# of a" {
		t.Errorf("got %q", got)
	}
	_ = m.remove("a", "", nil, m.now)
	if got := first(); got != "# of b" {
		t.Errorf("got %q", got)
	}
	changed := registrationOf("b", "1", false, "m")
	changed.Models[0].Value = []byte("# changed")
	m.mustPut(changed)
	if got := first(); got != "# changed" {
		t.Errorf("got %q", got)
	}
	m.mustPut(registrationOf("b", "1", false, "n")) // it serves another one by now
	m.want("workers/b", "endpoints/local/b", "models/n", "models/m")
}

// The next process begins with the registrations of the last one, and ends those that do not come back.
func TestRegistrationsAreSaved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "registrations.json")
	m := newMemory(t, file)
	if m.load(m.now) {
		t.Error("there is a file")
	}
	m.mustPut(registrationOf("a", "1", false, "m"))
	m.mustPut(registrationOf("b", "1", false))
	_ = m.remove("a", "1", nil, m.now)
	m.after(time.Second)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	next := newMemory(t, file)
	if !next.load(m.now) {
		t.Fatal("nothing is saved")
	}
	next.want("workers/b", "endpoints/local/b", "models/m")
	next.mustPut(registrationOf("b", "1", false))
	next.revoked = true
	next.after(wire.TTL)
	next.want("models/m")

	elsewhere := newMemory(t, file)
	elsewhere.colo = "fra"
	elsewhere.load(m.now)
	elsewhere.want("models/m") // and no engine of another colo
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if broken := newMemory(t, file); broken.load(m.now) {
		t.Error("a broken file was read")
	}
}
