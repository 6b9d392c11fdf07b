package simengine

import (
	"net/http"
	"sync"
	"time"
)

// probe makes a handler for requests of health checks.
func (e *Engine) probe(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if e.faults.takeUnhealthy() {
			writeError(w, engineFull())
			return
		}
		h(w, r)
	}
}

func (e *Engine) healthy(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"version":"simengine"}`))
}

type modelAnswer struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (e *Engine) model(name string) modelAnswer {
	return modelAnswer{ID: name, Object: "model", Created: e.started.Unix(), OwnedBy: "simengine"}
}

func (e *Engine) names() []string {
	if len(e.c.Models) == 0 {
		return []string{"demo"}
	}
	return e.c.Models
}

func (e *Engine) listModels(w http.ResponseWriter, _ *http.Request) {
	list := struct {
		Object string `json:"object"`
		Data   []any  `json:"data"`
	}{Object: "list"}
	for _, name := range e.names() {
		list.Data = append(list.Data, e.listed(name))
	}
	for _, name := range e.loaded() {
		list.Data = append(list.Data, object{"id": name, "object": "model", "owned_by": "vllm", "root": "/adapters/" + name, "parent": e.names()[0]})
	}
	writeJSON(w, http.StatusOK, marshal(list))
}

func (e *Engine) getModel(w http.ResponseWriter, name string) {
	if !e.serves(name) {
		writeError(w, modelNotFound(name))
		return
	}
	writeJSON(w, http.StatusOK, marshal(e.model(name)))
}

func (e *Engine) serveStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, marshal(e.Stats()))
}

func (e *Engine) now() int64 { return time.Now().Unix() }

// Received is one inference request as it arrived.
type Received struct {
	Method string      `json:"method"`
	Target string      `json:"target"` // as on the request line
	Host   string      `json:"host"`
	Header http.Header `json:"header"`
	Model  string      `json:"model"`
	Body   []byte      `json:"body"` // of JSON requests, at most 64 KiB
	At     time.Time   `json:"at"`   // when its body had been read
}

// recorder keeps the last requests.
type recorder struct {
	keep int

	mu   sync.Mutex // guards the field below
	last []Received // oldest first
}

func (r *recorder) add(req *http.Request, model string, body []byte) {
	if r.keep <= 0 {
		return
	}
	got := Received{Method: req.Method, Target: req.RequestURI, Host: req.Host,
		Header: req.Header.Clone(), Model: model, Body: append([]byte(nil), body[:min(len(body), 64<<10)]...), At: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) == r.keep {
		r.last = append(r.last[:0], r.last[1:]...)
	}
	r.last = append(r.last, got)
}

// Received returns the last Config.Record inference requests, oldest first.
func (e *Engine) Received() []Received {
	e.record.mu.Lock()
	defer e.record.mu.Unlock()
	return append([]Received{}, e.record.last...)
}

func (e *Engine) serveReceived(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, marshal(e.Received()))
}
