package document

import (
	"maps"
	"slices"

	"colonnade/fleet"
)

// Set holds the newest good version of each document. It is not safe for concurrent use.
type Set struct {
	builtin  builtinLayers
	good     map[string]*parsed // of all kinds but API keys
	apiKeys  apiKeys
	rejected map[string]fleet.Rejection
	yielding map[string]bool // what they claim is any other's who claims it
	revision int64
}

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{
		builtin:  parseBuiltin(),
		good:     map[string]*parsed{},
		apiKeys:  apiKeys{byID: map[string]storedAPIKey{}},
		rejected: map[string]fleet.Rejection{},
		yielding: map[string]bool{},
	}
}

// Yield makes a document give way, until it is put again or deleted: where it claims what a document that does not
// yield claims too, that one has it.
func (d *Set) Yield(key string) {
	if id, isAPIKey := apiKeyID(key); isAPIKey {
		d.apiKeys.yield(id)
		return
	}
	d.yielding[key] = true
}

// inOrder returns the keys of all good documents but API keys in the order in which they claim.
func (d *Set) inOrder() []string {
	keys := slices.Sorted(maps.Keys(d.good))
	if len(d.yielding) == 0 {
		return keys
	}
	first := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return d.yielding[key] })
	return append(first, slices.DeleteFunc(keys, func(key string) bool { return !d.yielding[key] })...)
}

// Put takes a version of a document. If it is bad, Put returns an *InvalidError, the last good version stays in force,
// and the rejection is part of the tables to come.
func (d *Set) Put(key string, value []byte, revision int64) error {
	d.revision = max(d.revision, revision)
	delete(d.yielding, key)
	doc, ferr := parse(key, value)
	if ferr != nil {
		inForce, lastGood := d.inForce(key)
		r := ferr.rejection(key, revision, lastGood)
		r.InForce = inForce
		d.rejected[key] = r
		return ferr.invalid(key, revision)
	}
	delete(d.rejected, key)
	if k, isAPIKey := doc.built.(*fleet.APIKey); isAPIKey {
		d.apiKeys.put(storedAPIKey{APIKey: k, revision: revision})
		return nil
	}
	doc.revision = revision
	d.good[key] = doc
	d.forget(doc.id.Kind)
	return nil
}

// inForce returns the revision of the last good version of a document.
func (d *Set) inForce(key string) (revision int64, lastGood bool) {
	if id, isAPIKey := apiKeyID(key); isAPIKey {
		k, ok := d.apiKeys.byID[id]
		return k.revision, ok
	}
	doc, ok := d.good[key]
	if !ok {
		return 0, false
	}
	return doc.revision, true
}

// Delete takes a document out, with its last good version.
func (d *Set) Delete(key string, revision int64) {
	d.revision = max(d.revision, revision)
	delete(d.yielding, key)
	delete(d.rejected, key)
	if id, isAPIKey := apiKeyID(key); isAPIKey {
		d.apiKeys.remove(id)
		return
	}
	if doc, ok := d.good[key]; ok {
		delete(d.good, key)
		d.forget(doc.id.Kind)
	}
}

// forget drops what was built on a layer that has changed.
func (d *Set) forget(changed fleet.Kind) {
	if changed != fleet.KindDefaults && changed != fleet.KindPool {
		return
	}
	for _, doc := range d.good {
		if changed == fleet.KindDefaults || doc.id.Kind == fleet.KindEndpoint {
			doc.built = nil
		}
	}
}

// Noun returns what the last good version of a document describes, as it would stand in the table: a pointer to a
// [Model], a [Server] and so on; nil if there is none.
func (d *Set) Noun(key string) any {
	if id, isAPIKey := apiKeyID(key); isAPIKey {
		if k, ok := d.apiKeys.byID[id]; ok {
			return k.APIKey
		}
		return nil
	}
	doc, ok := d.good[key]
	if !ok {
		return nil
	}
	noun, err := d.resolver().noun(doc)
	if err != nil {
		return nil
	}
	return noun
}

// Keys returns the keys of all good documents, sorted.
func (d *Set) Keys() []string {
	keys := slices.AppendSeq(d.apiKeys.documentKeys(), maps.Keys(d.good))
	slices.Sort(keys)
	return keys
}

// Known returns the keys of all documents, good or rejected, sorted.
func (d *Set) Known() []string {
	keys := slices.AppendSeq(d.Keys(), maps.Keys(d.rejected))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// CheckKey says whether a document may have this key; if not, it returns an *InvalidError.
func CheckKey(key string) error {
	_, err := parseKey(key)
	return err.invalid(key, 0)
}

// Check says whether a document is acceptable on its own; if not, it returns an *InvalidError.
func Check(key string, value []byte) error {
	_, err := parse(key, value)
	return err.invalid(key, 0)
}
