package change

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/discovery/files"
	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
	"colonnade/internal/wording"
)

const (
	// editAttempts is how often a change is decided when other commands change documents meanwhile.
	editAttempts = 8
	// editPause is how long the next attempt waits at most, times the number of attempts.
	editPause = 40 * time.Millisecond
)

// Applied is what a change did with one document that it put.
type Applied struct {
	Key, Where         string // Where as Create returns it
	Created, Unchanged bool
	SameMeaning        bool   // only comments or style have changed; [Documents.Apply] says so
	Value              []byte // as it stands now
}

// Done is what a change did. With an error, it is what was done before.
type Done struct {
	Applied  []Applied
	Deleted  []Deleted
	Revision int64 // of etcd before the change
	Newest   int64 // of etcd with the change; 0 = nothing was changed, or the documents are in files
	Parts    int   // transactions of etcd
}

// Decision returns the change of documents that depends on those that are there. It may be called several times, and its error ends the
// change.
type Decision func(ctx context.Context, before []etcd.Stored) (etcd.Edit, error)

// Edit changes documents in etcd or in files. No document changes between a decision and its effect, but for registrations.
func (d *Documents) Edit(ctx context.Context, decide Decision) (Done, error) {
	if d.Client == nil {
		return d.editFiles(ctx, decide)
	}
	var first etcd.Snapshot
	var done []etcd.Change
	for attempt := 1; ; attempt++ {
		snapshot, err := d.Writer().Snapshot(ctx)
		if err != nil {
			return Done{}, err
		}
		if attempt == 1 {
			first = snapshot
		}
		e, err := decide(ctx, snapshot.Documents)
		if err == nil {
			err = clash(first, snapshot, e, done)
		}
		if err != nil {
			return newDone(e, first.Revision, done), err
		}
		changes, err := d.Writer().Commit(ctx, snapshot, e)
		done = append(done, changes...)
		switch {
		case !errors.Is(err, etcd.ErrChanged):
			return newDone(e, first.Revision, done), err
		case attempt == editAttempts, !ctxtime.Sleep(ctx, rand.N(time.Duration(attempt)*editPause)):
			return newDone(e, first.Revision, done), &ConflictError{What: saidDone(done) + ": other commands or programs change documents all the time",
				Advice: "run this again when they have ended, and see colonnade config history"}
		}
	}
}

// ConflictError says that others changed documents while a change was decided, and that it was given up.
type ConflictError struct {
	What   string // and how much was changed before
	Advice string // for commands
}

func (e *ConflictError) Error() string { return e.What + "; " + e.Advice }

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
		return &ConflictError{What: fmt.Sprintf("%s: %s was %s while this command ran", saidDone(done), key, by), Advice: "compare with colonnade config diff, and run this again"}
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
	return "only " + wording.Count(n, "document") + " changed"
}

func newDone(e etcd.Edit, revision int64, done []etcd.Change) Done {
	actions := map[string]string{}
	for _, c := range done {
		for _, d := range c.Documents {
			actions[d.Key] = d.Action
		}
	}
	result := Done{Revision: revision, Parts: len(done)}
	if len(done) > 0 {
		result.Newest = done[len(done)-1].Revision
	}
	for _, d := range e.Put {
		action := actions[d.Key]
		result.Applied = append(result.Applied, Applied{Key: d.Key, Created: action == etcd.ActionCreated, Unchanged: action == "", Value: d.Value})
	}
	for _, key := range e.Delete {
		if actions[key] == etcd.ActionDeleted {
			result.Deleted = append(result.Deleted, Deleted{Key: key})
		}
	}
	return result
}

// editFiles changes the documents in files.
func (d *Documents) editFiles(ctx context.Context, decide Decision) (Done, error) {
	done, err := files.Change(ctx, d.Path, func(before []files.Located) (files.Changes, error) {
		e, err := decide(ctx, asStored(before))
		return files.Changes{Put: e.Put, Delete: e.Delete}, err
	})
	var result Done
	for _, a := range done.Applied {
		result.Applied = append(result.Applied, Applied{Key: a.Key, Where: fmt.Sprintf(" at %s:%d", a.File, a.Line), Created: a.Created, Unchanged: a.Unchanged, Value: a.Value})
	}
	for _, l := range done.Deleted {
		result.Deleted = append(result.Deleted, Deleted{l.Key, fmt.Sprintf(" from %s:%d", l.File, l.Line)})
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

// After returns the documents as they are after a change, sorted by key.
func After(before []etcd.Stored, e etcd.Edit) []etcd.Stored {
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
