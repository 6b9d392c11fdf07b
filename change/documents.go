package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colonnade/discovery/etcd"
	"colonnade/discovery/files"
	"colonnade/fleet/document"
)

// Documents are those of a fleet in etcd, or those of one process in files. The methods may be called by several goroutines at once.
type Documents struct {
	Client *etcd.Client // nil: they are in files
	Author etcd.Author  // of changes in etcd
	Path   string       // of the files
}

// InFiles reports whether the documents are in files.
func (d *Documents) InFiles() bool { return d.Client == nil }

// ErrExists says that there is a document under the key already.
var ErrExists = errors.New("the document exists already")

// Writer changes the documents in etcd.
func (d *Documents) Writer() etcd.Writer {
	return etcd.Writer{Client: d.Client, Prefix: etcd.DefaultPrefix, Author: d.Author}
}

// List returns the documents with a key, or below a folder such as "models/", or all below "", sorted by key. Of files, it returns the
// good ones also with an error.
func (d *Documents) List(ctx context.Context, under string) ([]etcd.Stored, error) {
	if d.Client != nil {
		found, _, err := etcd.List(ctx, d.Client, etcd.DefaultPrefix, under)
		return found, err
	}
	located, err := files.Read(d.Path)
	var found []etcd.Stored
	for _, l := range located {
		if under == "" || l.Key == under || strings.HasSuffix(under, "/") && strings.HasPrefix(l.Key, under) {
			found = append(found, etcd.Stored{Key: l.Key, Value: l.Value})
		}
	}
	slices.SortFunc(found, func(a, b etcd.Stored) int { return strings.Compare(a.Key, b.Key) })
	return found, err
}

// Create puts a document that is not there yet, else the error is ErrExists. where is a phrase for messages; it is empty for etcd.
func (d *Documents) Create(ctx context.Context, doc document.Raw) (where string, err error) {
	if d.Client != nil {
		err = d.Writer().Create(ctx, doc)
	} else {
		var at files.Located
		at, err = files.Create(ctx, d.Path, doc)
		where = " in " + at.File
	}
	if errors.Is(err, etcd.ErrExists) || errors.Is(err, files.ErrExists) {
		return "", ErrExists
	}
	return where, err
}

// Deleted is a document that was deleted, and a phrase that says where it stood; empty for etcd.
type Deleted struct{ Key, Where string }

// Delete deletes documents, and returns those that were there, also with an error. confirmed confirms the deletion in etcd in the same
// transaction, up to the revision that it returns; without documents, revision is 0.
func (d *Documents) Delete(ctx context.Context, keys []string, confirmed bool) (deleted []Deleted, revision int64, err error) {
	if d.Client == nil {
		done, err := files.Delete(ctx, d.Path, keys)
		for _, l := range done {
			deleted = append(deleted, Deleted{l.Key, fmt.Sprintf(" from %s:%d", l.File, l.Line)})
		}
		return deleted, 0, err
	}
	var found []string
	if confirmed {
		found, revision, err = d.Writer().DeleteConfirmed(ctx, keys)
	} else {
		found, err = d.Writer().Delete(ctx, keys)
	}
	for _, key := range found {
		deleted = append(deleted, Deleted{Key: key})
	}
	return deleted, revision, err
}
