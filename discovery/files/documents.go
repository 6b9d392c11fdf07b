package files

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// documents are those of the files and of the process itself, and the set of what is in force of them.
type documents struct {
	set      *document.Set
	files    []Located
	own      []ownDocuments
	inSet    map[string]versioned // by key; the newest version, good or bad
	revision int64                // how often the set has changed
}

// ownDocuments are the documents that one part of the process has made.
type ownDocuments struct {
	source string
	docs   []document.Raw
}

type versioned struct {
	value    []byte
	own      bool   // no file has the key
	place    string // FILE:LINE; empty if it is an own one
	source   string // of an own one
	revision int64
}

func newDocuments() *documents {
	return &documents{set: document.NewSet(), inSet: map[string]versioned{}}
}

// setOwn replaces the documents of a source.
func (d *documents) setOwn(source string, docs []document.Raw) {
	next := ownDocuments{source: source, docs: slices.Clone(docs)}
	i := slices.IndexFunc(d.own, func(known ownDocuments) bool { return known.source == source })
	if i < 0 {
		d.own = append(d.own, next)
	} else {
		d.own[i] = next
	}
}

// update brings the set to what the files and the process have now. It reports whether anything has changed, returns the changes of
// documents in files, and an error for each new version that is bad, which only documents of the process can be.
func (d *documents) update() (changed bool, changes []change, failed []error) {
	wanted, order := d.wanted()
	next := d.revision + 1
	for _, key := range slices.Sorted(maps.Keys(d.inSet)) { // first, since what a document claims is free then
		if _, stays := wanted[key]; !stays {
			changes = appendChange(changes, "deleted", key, d.inSet[key])
			d.set.Delete(key, next)
			delete(d.inSet, key)
			changed = true
		}
	}
	for _, key := range order {
		v, known := wanted[key], d.inSet[key]
		if known.revision > 0 && known.own == v.own && bytes.Equal(known.value, v.value) {
			known.place, known.source = v.place, v.source
			d.inSet[key] = known
			continue
		}
		switch {
		case known.revision == 0:
			changes = appendChange(changes, "created", key, v)
		case v.own: // the process has a document of its own in its place
			changes = appendChange(changes, "deleted", key, known)
		default:
			changes = appendChange(changes, "changed", key, v)
		}
		v.revision, changed = next, true
		d.inSet[key] = v
		if err := d.set.Put(key, v.value, next); err != nil {
			failed = append(failed, err)
		} else if v.own && !strings.HasPrefix(key, string(fleet.KindServer)+"/") {
			d.set.Yield(key) // to a document of a file that claims the same under another key
		}
	}
	if changed {
		d.revision = next
	}
	return changed, changes, failed
}

// appendChange appends a change, unless the document is one of the process.
func appendChange(changes []change, action, key string, v versioned) []change {
	if v.own {
		return changes
	}
	return append(changes, change{action, key, v.place})
}

// wanted returns what the set should have, and the keys in the order in which they are put. A file wins over the process,
// and the source that came first over the others.
func (d *documents) wanted() (byKey map[string]versioned, order []string) {
	byKey = map[string]versioned{}
	add := func(doc document.Raw, place, source string) {
		if _, taken := byKey[doc.Key]; !taken {
			byKey[doc.Key] = versioned{value: doc.Value, own: place == "", place: place, source: source}
			order = append(order, doc.Key)
		}
	}
	for _, doc := range d.files {
		add(doc.Raw, fmt.Sprintf("%s:%d", doc.File, doc.Line), "")
	}
	for _, own := range d.own {
		for _, doc := range own.docs {
			add(doc, "", own.source)
		}
	}
	return byKey, order
}
