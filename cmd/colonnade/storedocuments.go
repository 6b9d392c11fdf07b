package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colonnade/discovery/etcd"
	"colonnade/discovery/files"
	"colonnade/fleet/document"
	"colonnade/node"
)

// documents are those of a fleet in etcd, or those of one process in files.
type documents struct {
	client *etcd.Client // nil: they are in files
	author etcd.Author  // of changes in etcd
	path   string       // of the files
}

// errExists says that there is a document under the key already.
var errExists = errors.New("the document exists already")

// flag is the flag that a further command needs to work with the same documents; etcd is named by the environment.
func (d *documents) flag() string {
	if d.client != nil {
		return ""
	}
	return " -config " + d.path
}

// writer changes the documents in etcd.
func (d *documents) writer() etcd.Writer {
	return etcd.Writer{Client: d.client, Prefix: node.Prefix, Author: d.author}
}

// list returns the documents with a key, or below a folder such as "models/", or all below "", sorted by key. Of files, it returns the
// good ones also with an error.
func (d *documents) list(ctx context.Context, under string) ([]etcd.Stored, error) {
	if d.client != nil {
		found, _, err := etcd.List(ctx, d.client, node.Prefix, under)
		return found, err
	}
	located, err := files.Read(d.path)
	var found []etcd.Stored
	for _, l := range located {
		if under == "" || l.Key == under || strings.HasSuffix(under, "/") && strings.HasPrefix(l.Key, under) {
			found = append(found, etcd.Stored{Key: l.Key, Value: l.Value})
		}
	}
	slices.SortFunc(found, func(a, b etcd.Stored) int { return strings.Compare(a.Key, b.Key) })
	return found, err
}

// create puts a document that is not there yet, else the error is errExists. where is a phrase for messages; it is empty for etcd.
func (d *documents) create(ctx context.Context, doc document.Raw) (where string, err error) {
	if d.client != nil {
		err = d.writer().Create(ctx, doc)
	} else {
		var at files.Located
		at, err = files.Create(ctx, d.path, doc)
		where = " in " + at.File
	}
	if errors.Is(err, etcd.ErrExists) || errors.Is(err, files.ErrExists) {
		return "", errExists
	}
	return where, err
}

// deletedDocument is a document that was deleted, and a phrase that says where it stood; empty for etcd.
type deletedDocument struct{ key, where string }

// delete deletes documents, and returns those that were there, also with an error. confirmed confirms the deletion in etcd in the same
// transaction, up to the revision that it returns; without documents, revision is 0.
func (d *documents) delete(ctx context.Context, keys []string, confirmed bool) (deleted []deletedDocument, revision int64, err error) {
	if d.client == nil {
		done, err := files.Delete(ctx, d.path, keys)
		for _, l := range done {
			deleted = append(deleted, deletedDocument{l.Key, fmt.Sprintf(" from %s:%d", l.File, l.Line)})
		}
		return deleted, 0, err
	}
	var found []string
	if confirmed {
		found, revision, err = d.writer().DeleteConfirmed(ctx, keys)
	} else {
		found, err = d.writer().Delete(ctx, keys)
	}
	for _, key := range found {
		deleted = append(deleted, deletedDocument{key: key})
	}
	return deleted, revision, err
}

// deletedKeys returns the keys of deleted documents.
func deletedKeys(deleted []deletedDocument) []string {
	var keys []string
	for _, d := range deleted {
		keys = append(keys, d.key)
	}
	return keys
}
