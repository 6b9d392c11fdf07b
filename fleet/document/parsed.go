package document

import (
	"maps"
	"time"

	"colonnade/fleet"
)

// newestVersion is the newest version of documents that this program knows: 2 has allow_fields, max_completions and max_inputs; 3 has
// labels, position, within, weights and forward_below; 4 has fallback, max_model_len, prompt_filter, allow_external and output_tokens; 5 has
// role, state_reason, metrics and registered_by. A document says which version it needs in its field version; unknown fields are accepted only in one that
// is newer.
const newestVersion = 5

// parsed is a good version of a document. Only built changes.
type parsed struct {
	key   string
	id    identity
	tree  map[string]any // without version; nil for an API key, which is built at once
	newer bool

	revision int64 // of the store, when this version was put
	built    any   // the noun made of the document and the layers below it; nil = not made yet
}

// parse reads a document and checks it by itself.
func parse(key string, value []byte) (*parsed, *fieldError) {
	id, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	tree, err := parseTree(value)
	if err != nil {
		return nil, err
	}
	doc := &parsed{key: key, id: id, tree: tree}
	if err := doc.takeVersion(); err != nil {
		return nil, err
	}
	return doc, doc.check()
}

// takeVersion takes the version out of the tree. In documents of nodes, a field of that name has the version of their
// software, and their protocol says how new the document is.
func (doc *parsed) takeVersion() *fieldError {
	if doc.id.Kind.OfNode() {
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

// check decodes the document. The result is discarded unless it is an API key.
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
		k := &fleet.APIKey{ID: doc.id.Name}
		if err := d.decode(doc.tree, k); err != nil {
			return err
		}
		doc.tree, doc.built = nil, k // no layer lies below it
		return checkAPIKey(k)
	case fleet.KindModel:
		var m fleet.Model
		if err := d.decode(doc.tree, &m); err != nil {
			return err
		}
		return checkModel(doc.id.Name, &m)
	case fleet.KindFlow:
		var f fleet.Flow
		if err := d.decode(doc.tree, &f); err != nil {
			return err
		}
		return checkFlow(&f)
	case fleet.KindIssuer:
		var i fleet.Issuer
		if err := d.decode(doc.tree, &i); err != nil {
			return err
		}
		return checkIssuer(&i)
	case fleet.KindCapture:
		var c fleet.Capture
		if err := d.decode(doc.tree, &c); err != nil {
			return err
		}
		return checkCapture(&c, time.Now())
	case fleet.KindSink:
		s := fleet.Sink{Name: doc.id.Name}
		if err := d.decode(doc.tree, &s); err != nil {
			return err
		}
		return checkSink(&s)
	case fleet.KindPool:
		return d.checkPool(doc.tree)
	case fleet.KindEndpoint:
		return d.checkEndpointDocument(doc.tree)
	}
	return d.decode(doc.tree, doc.id.blank())
}

func (d decoder) checkEndpointDocument(tree map[string]any) *fieldError {
	var e fleet.Endpoint
	if err := d.decode(tree, &e); err != nil {
		return err
	}
	return checkEndpoint(&e)
}
