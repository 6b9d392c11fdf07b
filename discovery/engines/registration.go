package engines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// Place says where an engine is registered that a process of its own follows.
type Place struct {
	Colo string
	ID   string // of its endpoint
	Pool string // "" = by its models, as Documents names it
	// Fields of the endpoint's document that an operator has set. They replace what was found; the keys of maps are added to it.
	Fields map[string]any
	// Out says why the engine gets no requests for now; "" = it does.
	Out string
}

// NormalURL returns the URL of an engine as documents have it in force: with a scheme, in lower case up to its path, without the scheme's own port, a
// trailing slash or /v1.
func NormalURL(rawURL string) (string, error) { return normalURL(rawURL) }

// EndpointID returns the ID of the endpoint with a URL, as [Documents] names it.
func EndpointID(rawURL string) (string, error) {
	url, err := normalURL(rawURL)
	if err != nil {
		return "", err
	}
	return endpointID(url), nil
}

// Register returns the document of the engine's endpoint, and those of its pool and models, each valid by itself. Other engines
// may belong to the same pool, so the latter are for places where there are none. No model is called default as well. An engine without models
// has no document of a pool or model, and its endpoint is out.
func (p Place) Register(e *Engine) (endpoint document.Raw, shared []document.Raw, err error) {
	in := pool{name: cmp.Or(p.Pool, poolName(e)), engines: []*Engine{e}, lasting: true}
	if len(e.Models) == 0 {
		p.Out = cmp.Or(p.Out, "the engine lists no model that can be used")
	} else {
		shared = in.shared()
	}
	endpoint, err = p.endpoint(in.name, e)
	if err != nil {
		return document.Raw{}, nil, err
	}
	for _, d := range append(shared, endpoint) {
		if err := document.Check(d.Key, d.Value); err != nil {
			return document.Raw{}, nil, fmt.Errorf("cannot register %s: %w", e.URL, err)
		}
	}
	return endpoint, shared, nil
}

// shared returns the documents of a pool and its models, for engines that come and go.
func (p pool) shared() []document.Raw {
	e := p.engines[0]
	var t text
	t.comment("Engines that registered themselves.")
	t.field("queue", poolQueue)
	docs := []document.Raw{t.raw(fleet.KindPool.Key(p.name))}
	names := modelNames(p.engines)
	for _, m := range e.Models {
		docs = append(docs, writeModel(p, m, aliases(m, p.engines, names, "")))
	}
	return docs
}

// endpoint writes the engine's document with the fields of the operator.
func (p Place) endpoint(poolName string, e *Engine) (document.Raw, error) {
	found := writeEndpoint(p.Colo, poolName, e)
	fields := maps.Clone(p.Fields)
	if fields == nil {
		fields = map[string]any{}
	}
	if p.Out != "" {
		fields["concurrency"], fields["state"], fields["state_reason"] = 0, fleet.StateDraining, Statement(p.Out)
		delete(fields, "auto") // which stands only beside concurrency: auto
	}
	out := found.Value
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var err error
		if out, err = setLine(out, name, fields[name]); err != nil {
			return document.Raw{}, err
		}
	}
	return document.Raw{Key: fleet.KindEndpoint.Key(p.Colo, p.ID), Value: out}, nil
}

// setLine sets a field in a document that has one line for each. The keys of a map are added to those that stand there.
func setLine(lines []byte, name string, value any) ([]byte, error) {
	prefix := []byte(name + ": ")
	var kept [][]byte
	for line := range bytes.Lines(lines) {
		was, isField := bytes.CutPrefix(line, prefix)
		if !isField {
			kept = append(kept, line)
			continue
		}
		if more, ok := value.(map[string]any); ok {
			merged := map[string]any{}
			_ = json.Unmarshal(was, &merged) // else it is replaced: the maps of writeEndpoint are JSON
			maps.Copy(merged, more)
			value = merged
		}
	}
	written, err := json.Marshal(value) // which is YAML on one line
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return append(bytes.Join(kept, nil), fmt.Appendf(nil, "%s: %s\n", name, written)...), nil
}

// Statement makes a text of a process or an engine one that documents accept.
func Statement(s string) string {
	s = printableLine(s)
	if len(s) > document.MaxText {
		s = strings.ToValidUTF8(s[:document.MaxText-len("…")], "") + "…"
	}
	return s
}
