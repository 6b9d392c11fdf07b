package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/discovery/files"
	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
)

const (
	// editAttempts is how often a change is decided when other commands change documents meanwhile.
	editAttempts = 8
	// editPause is how long the next attempt waits at most, times the number of attempts.
	editPause = 40 * time.Millisecond
)

// appliedDocument is what a change did with one document that it put.
type appliedDocument struct {
	key, where         string // where as create returns it
	created, unchanged bool
}

// edited is what a change did. With an error, it is what was done before.
type edited struct {
	applied  []appliedDocument
	deleted  []deletedDocument
	revision int64 // of etcd before the change
	parts    int   // transactions of etcd
}

// decision returns the change of documents that depends on those that are there. It may be called several times, and its error ends the
// change.
type decision func(ctx context.Context, before []etcd.Stored) (etcd.Edit, error)

// edit changes documents in etcd or in files. No document changes between a decision and its effect, but for registrations.
func (d *documents) edit(ctx context.Context, decide decision) (edited, error) {
	if d.client == nil {
		return d.editFiles(ctx, decide)
	}
	var first etcd.Snapshot
	var done []etcd.Change
	for attempt := 1; ; attempt++ {
		snapshot, err := d.writer().Snapshot(ctx)
		if err != nil {
			return edited{}, err
		}
		if attempt == 1 {
			first = snapshot
		}
		e, err := decide(ctx, snapshot.Documents)
		if err == nil {
			err = clash(first, snapshot, e, done)
		}
		if err != nil {
			return newEdited(e, first.Revision, done), err
		}
		changes, err := d.writer().Commit(ctx, snapshot, e)
		done = append(done, changes...)
		switch {
		case !errors.Is(err, etcd.ErrChanged):
			return newEdited(e, first.Revision, done), err
		case attempt == editAttempts, !ctxtime.Sleep(ctx, rand.N(time.Duration(attempt)*editPause)):
			return newEdited(e, first.Revision, done), fmt.Errorf("%s: other commands or programs change documents all the time; run this again when they have ended, "+
				"and see colonnade config history", saidDone(done))
		}
	}
}

// clash returns an error if another command has changed, since the first attempt, a document that this one changes: it would be lost
// without having been seen.
func clash(first, now etcd.Snapshot, e etcd.Edit, done []etcd.Change) error {
	then := map[string]int64{}
	for _, d := range first.Documents {
		then[d.Key] = d.Revision
	}
	current := map[string]int64{}
	for _, d := range now.Documents {
		current[d.Key] = d.Revision
	}
	for _, key := range keysOf(e) {
		revision := current[key]
		if revision == then[key] || slices.ContainsFunc(done, func(c etcd.Change) bool { return changes(c, key) }) {
			continue
		}
		by := "deleted"
		if revision > 0 {
			by = fmt.Sprintf("changed at revision %d", revision)
		}
		if revision == now.Authored && revision > 0 {
			by += " by " + now.Author.String()
		}
		return fmt.Errorf("%s: %s was %s while this command ran; compare with colonnade config diff, and run this again", saidDone(done), key, by)
	}
	return nil
}

func changes(c etcd.Change, key string) bool {
	return slices.ContainsFunc(c.Documents, func(d etcd.ChangedDocument) bool { return d.Key == key })
}

// keysOf returns the keys of a change.
func keysOf(e etcd.Edit) []string {
	keys := slices.Clone(e.Delete)
	for _, d := range e.Put {
		keys = append(keys, d.Key)
	}
	return keys
}

// saidDone says how much of a change was done.
func saidDone(done []etcd.Change) string {
	n := 0
	for _, c := range done {
		n += len(c.Documents)
	}
	if n == 0 {
		return "nothing was changed"
	}
	return "only " + count(n, "document") + " changed"
}

func newEdited(e etcd.Edit, revision int64, done []etcd.Change) edited {
	actions := map[string]string{}
	for _, c := range done {
		for _, d := range c.Documents {
			actions[d.Key] = d.Action
		}
	}
	result := edited{revision: revision, parts: len(done)}
	for _, d := range e.Put {
		action := actions[d.Key]
		result.applied = append(result.applied, appliedDocument{key: d.Key, created: action == etcd.ActionCreated, unchanged: action == ""})
	}
	for _, key := range e.Delete {
		if actions[key] == etcd.ActionDeleted {
			result.deleted = append(result.deleted, deletedDocument{key: key})
		}
	}
	return result
}

// editFiles changes the documents in files.
func (d *documents) editFiles(ctx context.Context, decide decision) (edited, error) {
	done, err := files.Change(ctx, d.path, func(before []files.Located) (files.Changes, error) {
		e, err := decide(ctx, asStored(before))
		return files.Changes{Put: e.Put, Delete: e.Delete}, err
	})
	var result edited
	for _, a := range done.Applied {
		result.applied = append(result.applied, appliedDocument{a.Key, fmt.Sprintf(" at %s:%d", a.File, a.Line), a.Created, a.Unchanged})
	}
	for _, l := range done.Deleted {
		result.deleted = append(result.deleted, deletedDocument{l.Key, fmt.Sprintf(" from %s:%d", l.File, l.Line)})
	}
	return result, err
}

// asStored returns documents of files as those of etcd, sorted by key.
func asStored(located []files.Located) []etcd.Stored {
	var all []etcd.Stored
	for _, l := range located {
		all = append(all, etcd.Stored{Key: l.Key, Value: l.Value})
	}
	slices.SortStableFunc(all, func(a, b etcd.Stored) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// lines describes what was done, a line for each document.
func (e *edited) lines() (all []string) {
	for _, a := range e.applied {
		verb := "applied "
		if a.unchanged {
			verb = "unchanged "
		}
		all = append(all, verb+a.key+command.Printable(a.where))
	}
	for _, d := range e.deleted {
		all = append(all, "deleted "+command.Printable(d.key+d.where))
	}
	return all
}

// withKey returns the document of a key.
func withKey(docs []etcd.Stored, key string) (etcd.Stored, bool) {
	at, found := slices.BinarySearchFunc(docs, key, func(d etcd.Stored, key string) int { return strings.Compare(d.Key, key) })
	if !found {
		return etcd.Stored{}, false
	}
	return docs[at], true
}

// after returns the documents as they are after a change, sorted by key.
func after(before []etcd.Stored, e etcd.Edit) []etcd.Stored {
	changed := map[string]document.Raw{}
	for _, d := range e.Put {
		changed[d.Key] = d
	}
	deleted := map[string]bool{}
	for _, key := range e.Delete {
		deleted[key] = true
	}
	var all []etcd.Stored
	newest := int64(0)
	for _, d := range before {
		newest = max(newest, d.Created)
		if put, ok := changed[d.Key]; ok {
			d.Value, d.Leased = put.Value, false
			delete(changed, d.Key)
		} else if deleted[d.Key] {
			continue
		}
		all = append(all, d)
	}
	for _, d := range changed {
		all = append(all, etcd.Stored{Key: d.Key, Value: d.Value, Created: newest + 1})
	}
	slices.SortFunc(all, func(a, b etcd.Stored) int { return strings.Compare(a.Key, b.Key) })
	return all
}
