package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Version is the newest version of documents that this program knows. A document says which version it needs in its
// field version; unknown fields are accepted only in one that is newer. So upgrade nodes before documents.
const Version = 1

// document is the good version of a document. Only built ever changes.
type document struct {
	id    identity
	tree  map[string]any // without version; nil for an API key, which is built at once
	newer bool

	revision int64 // of the store, when this version was put
	built    any   // the noun made of it and the layers below it; nil = to be made
}

// parseDocument reads a document and checks it on its own.
func parseDocument(key string, value []byte) (*document, *fieldError) {
	id, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	tree, err := parseTree(value)
	if err != nil {
		return nil, err
	}
	doc := &document{id: id, tree: tree}
	if err := doc.takeVersion(); err != nil {
		return nil, err
	}
	return doc, doc.check()
}

// takeVersion takes the version out of an operator's document. Nodes write the version of their software into a field
// of that name; how new their documents are is told by their protocol.
func (doc *document) takeVersion() *fieldError {
	if doc.id.Kind == KindServer || doc.id.Kind == KindEntry {
		protocol, _ := doc.tree["protocol"].(map[string]any)
		newest, _ := protocol["max"].(int64)
		doc.newer = newest > Protocol
		return nil
	}
	version, present := doc.tree["version"]
	if !present {
		return nil
	}
	n, ok := version.(int64)
	if !ok || n < 1 {
		return &fieldError{Field: "version", Value: describe(version), Reason: "must be a whole number, at least 1"}
	}
	doc.newer = n > Version
	doc.tree = maps.Clone(doc.tree)
	delete(doc.tree, "version")
	return nil
}

// check decodes the document, into a struct that is thrown away unless it is an API key.
func (doc *document) check() *fieldError {
	d := decoder{lenient: doc.newer}
	switch doc.id.Kind {
	case KindDefaults:
		return doc.checkDefaults()
	case KindAccount:
		if _, present := doc.tree["keys"]; present {
			return errKeysInAccount(doc.id.Name)
		}
	case KindAPIKey:
		k := doc.id.blank()
		if err := d.decode(doc.tree, k); err != nil {
			return err
		}
		doc.tree, doc.built = nil, k // no layer lies below it
		return nil
	case KindEndpoint:
		var e Endpoint
		if err := d.decode(doc.tree, &e); err != nil {
			return err
		}
		return e.checkAuto()
	}
	return d.decode(doc.tree, doc.id.blank())
}

// blank returns a pointer to the struct that a document of this kind is decoded into.
func (id identity) blank() any {
	switch id.Kind {
	case KindDeletions:
		return &Deletions{}
	case KindModel:
		return &Model{Name: id.Name}
	case KindPool:
		return &Pool{Name: id.Name}
	case KindColo:
		return &Colo{Name: id.Name}
	case KindAccount:
		return &Account{Name: id.Name}
	case KindAPIKey:
		return &APIKey{ID: id.Name}
	case KindEndpoint:
		return &Endpoint{Colo: id.Colo, ID: id.Name}
	case KindServer:
		return &Server{Colo: id.Colo, Node: id.Name}
	case KindEntry:
		return &EntryNode{Node: id.Name}
	}
	return &defaultsDocument{}
}

// defaultsDocument has the layers of the defaults document still as trees, to be laid under others.
type defaultsDocument struct {
	// Defaults of models.
	Model layer `json:"model" of:"model"`
	// Defaults of pools.
	Pool layer `json:"pool" of:"pool"`
	// Defaults of endpoints with any engine.
	Endpoint layer `json:"endpoint" of:"endpoint"`
	// Defaults of endpoints by engine. They override endpoint.
	Engines map[string]layer `json:"engines" of:"engine"`
	// Origins of web pages that may open realtime sessions. Requests without an Origin header are accepted.
	Origins []string `json:"origins" is:"origin"`
}

// layer is part of a tree as it is.
type layer map[string]any

func (doc *document) checkDefaults() *fieldError {
	var all defaultsDocument
	if err := (decoder{lenient: doc.newer}).decode(doc.tree, &all); err != nil {
		return err
	}
	d := decoder{lenient: doc.newer, partial: true}
	if err := d.decode(all.Model, &Model{}).in("model"); err != nil {
		return err
	}
	if err := d.decode(all.Pool, &Pool{}).in("pool"); err != nil {
		return err
	}
	if err := d.checkEndpointLayer(all.Endpoint).in("endpoint"); err != nil {
		return err
	}
	for _, engine := range slices.Sorted(maps.Keys(all.Engines)) {
		if err := d.checkEngine(engine, all.Engines[engine]); err != nil {
			return err.in(fieldName(engine)).in("engines")
		}
	}
	return nil
}

func (d decoder) checkEngine(engine string, tree layer) *fieldError {
	if !slices.Contains(Engines(), engine) {
		return &fieldError{Reason: "unknown engine; must be one of " + strings.Join(Engines(), ", ")}
	}
	if _, present := tree["engine"]; present {
		return &fieldError{Field: "engine", Reason: fmt.Sprintf("these are the defaults of %s; leave the field out", engine)}
	}
	return d.checkEndpointLayer(tree)
}

// checkEndpointLayer checks defaults of endpoints. They may bound those that find their limit without saying that all
// do.
func (d decoder) checkEndpointLayer(tree layer) *fieldError {
	var e Endpoint
	if err := d.decode(tree, &e); err != nil {
		return err
	}
	return e.Auto.check().in("auto")
}
