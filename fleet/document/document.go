package document

import (
	"maps"

	"colonnade/fleet"
)

// newestVersion is the newest version of documents that this program knows. A document says which version it needs in its
// field version; unknown fields are accepted only in one that is newer. So upgrade nodes before documents.
const newestVersion = 1

// parsed is the good version of a document. Only built ever changes.
type parsed struct {
	id    identity
	tree  map[string]any // without version; nil for an API key, which is built at once
	newer bool

	revision int64 // of the store, when this version was put
	built    any   // the noun made of it and the layers below it; nil = to be made
}

// parse reads a document and checks it on its own.
func parse(key string, value []byte) (*parsed, *fieldError) {
	id, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	tree, err := parseTree(value)
	if err != nil {
		return nil, err
	}
	doc := &parsed{id: id, tree: tree}
	if err := doc.takeVersion(); err != nil {
		return nil, err
	}
	return doc, doc.check()
}

// takeVersion takes the version out of an operator's document. Nodes write the version of their software into a field
// of that name; how new their documents are is told by their protocol.
func (doc *parsed) takeVersion() *fieldError {
	if doc.id.Kind == fleet.KindServer || doc.id.Kind == fleet.KindEntry {
		protocol, _ := doc.tree["protocol"].(map[string]any)
		newest, _ := protocol["max"].(int64)
		doc.newer = newest > fleet.Protocol
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
	doc.newer = n > newestVersion
	doc.tree = maps.Clone(doc.tree)
	delete(doc.tree, "version")
	return nil
}

// check decodes the document, into a struct that is thrown away unless it is an API key.
func (doc *parsed) check() *fieldError {
	d := decoder{lenient: doc.newer}
	switch doc.id.Kind {
	case fleet.KindDefaults:
		return doc.checkDefaults()
	case fleet.KindAccount:
		if _, present := doc.tree["keys"]; present {
			return errKeysInAccount(doc.id.Name)
		}
	case fleet.KindAPIKey:
		k := doc.id.blank()
		if err := d.decode(doc.tree, k); err != nil {
			return err
		}
		doc.tree, doc.built = nil, k // no layer lies below it
		return nil
	case fleet.KindEndpoint:
		var e fleet.Endpoint
		if err := d.decode(doc.tree, &e); err != nil {
			return err
		}
		return checkEndpoint(&e)
	}
	return d.decode(doc.tree, doc.id.blank())
}

// blank returns a pointer to the struct that a document of this kind is decoded into.
func (id identity) blank() any {
	switch id.Kind {
	case fleet.KindDeletions:
		return &fleet.Deletions{}
	case fleet.KindModel:
		return &fleet.Model{Name: id.Name}
	case fleet.KindPool:
		return &fleet.Pool{Name: id.Name}
	case fleet.KindColo:
		return &fleet.Colo{Name: id.Name}
	case fleet.KindAccount:
		return &fleet.Account{Name: id.Name}
	case fleet.KindAPIKey:
		return &fleet.APIKey{ID: id.Name}
	case fleet.KindEndpoint:
		return &fleet.Endpoint{Colo: id.Colo, ID: id.Name}
	case fleet.KindServer:
		return &fleet.Server{Colo: id.Colo, Node: id.Name}
	case fleet.KindEntry:
		return &fleet.EntryNode{Node: id.Name}
	}
	return &defaults{}
}
