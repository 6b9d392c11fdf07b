// Package wire has what a worker sends to a server that registers it, and what it gets: one PUT below [Path] each third of a TTL, and a DELETE
// at the end. The server has the documents on the worker's behalf while the PUTs come.
package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

const (
	// PoolPath has the pool of a model, by ?model=NAME.
	PoolPath = "/api/v1/registrations"
	// Path begins the path of a registration, which ends in the name of the worker.
	Path = PoolPath + "/"
	// TTL is how long a server keeps a registration that is not renewed.
	TTL = 5 * time.Second
	// MaxBody bounds the body of a PUT, in bytes.
	MaxBody = 1 << 20
	// MaxModels bounds the documents of models and pools in one PUT.
	MaxModels = 1000
)

// Request is the body of a PUT.
type Request struct {
	// Worker is the document workers/<node>.
	Worker json.RawMessage `json:"worker"`
	// Endpoint is the document of the engine; nil while the engine has not answered yet.
	Endpoint *Document `json:"endpoint,omitempty"`
	// Models are documents of models and pools, which are created where there are none.
	Models []Document `json:"models,omitempty"`
}

// Fields returns the fields that a worker's documents of models and pools have. An API key with the role worker sets no others.
func Fields(k fleet.Kind) []string {
	switch k {
	case fleet.KindModel:
		return []string{"type", "pool", "aliases"}
	case fleet.KindPool:
		return []string{"queue"}
	}
	return nil
}

// Document is a document as its text, YAML or JSON, so that its comments stay.
type Document struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// Raw returns the document as the other packages have it.
func (d Document) Raw() document.Raw { return document.Raw{Key: d.Key, Value: []byte(d.Text)} }

// Answer is the answer to a PUT.
type Answer struct {
	Node string `json:"node"` // that answers
	Colo string `json:"colo"` // of that node
	// TTLSeconds is after how long without a PUT the registration ends.
	TTLSeconds float64 `json:"ttl_seconds"`
	// Stored reports whether the documents of this PUT stand where the servers of the colo see them.
	Stored bool `json:"stored"`
	// Reason says why they do not; empty if they do.
	Reason string `json:"reason,omitempty"`
	// InFlight is how many requests servers of the colo may still have on the engine, or more.
	InFlight int `json:"in_flight"`
}

// PoolOfModel is which pool the document of a model names; empty if there is no such document.
type PoolOfModel struct {
	Model string `json:"model"`
	Pool  string `json:"pool"`
}

// NewRequest returns the body for a worker and the documents of its engine; endpoint has no key while the engine has not answered.
func NewRequest(w *fleet.Worker, endpoint document.Raw, models []document.Raw) (Request, error) {
	own, err := json.Marshal(w)
	if err != nil {
		return Request{}, fmt.Errorf("cannot write the document of worker %s: %w", w.Node, err)
	}
	r := Request{Worker: own}
	if endpoint.Key != "" {
		r.Endpoint = &Document{endpoint.Key, string(endpoint.Value)}
	}
	for _, d := range models {
		r.Models = append(r.Models, Document{d.Key, string(d.Value)})
	}
	return r, nil
}
