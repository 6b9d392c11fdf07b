package files

import (
	"context"
	"errors"
	"slices"

	"colonnade/fleet/document"
)

// ErrExists says that there is a document under the key already.
var ErrExists = errors.New("the document exists already")

// Applied is what Change did with one document that it put.
type Applied struct {
	Located        // as it stands now
	Created   bool // there was no document of this key before
	Unchanged bool // it was there before, word for word
}

// Changes are documents to put, and the keys of documents to remove.
type Changes struct {
	Put    []document.Raw
	Delete []string
}

// Changed is what Change did.
type Changed struct {
	Applied []Applied
	Deleted []Located // where they stood
}

// Change puts documents into the files of a path, each in place of the one with its key, or else into the file that holds documents of its
// kind; see Edit. It removes others. decide says which, by the documents that are there; it may be called several times, and its error is
// returned. All is done or nothing.
func Change(ctx context.Context, path string, decide func(before []Located) (Changes, error)) (done Changed, err error) {
	after, err := Edit(ctx, path, func(all []Located) ([]Located, error) {
		wanted, err := decide(slices.Clone(all))
		if err != nil {
			return nil, err
		}
		done = Changed{Applied: make([]Applied, len(wanted.Put))}
		there := byKey(all)
		for i, d := range wanted.Put {
			at, found := there[d.Key]
			done.Applied[i] = Applied{Located: Located{Raw: d}, Created: !found}
			if !found {
				all = append(all, Located{Raw: d})
				continue
			}
			done.Applied[i].Unchanged = sameDocument(all[at].Raw, d)
			all[at].Raw = d
		}
		return slices.DeleteFunc(all, func(l Located) bool {
			if !slices.Contains(wanted.Delete, l.Key) {
				return false
			}
			done.Deleted = append(done.Deleted, l)
			return true
		}), nil
	})
	if err != nil {
		return Changed{}, err
	}
	there := byKey(after)
	for i, a := range done.Applied {
		done.Applied[i].Located = after[there[a.Key]]
	}
	return done, nil
}

// Create puts a document into the files of a path, and never replaces another one: the error is ErrExists if there is one with its key. It
// returns the document where it stands.
func Create(ctx context.Context, path string, doc document.Raw) (Located, error) {
	after, err := Edit(ctx, path, func(all []Located) ([]Located, error) {
		if _, exists := byKey(all)[doc.Key]; exists {
			return nil, ErrExists
		}
		return append(all, Located{Raw: doc}), nil
	})
	if err != nil {
		return Located{}, err
	}
	return after[byKey(after)[doc.Key]], nil
}

// Delete removes the documents with some keys from the files of a path, all or none, and returns them where they stood.
func Delete(ctx context.Context, path string, keys []string) (deleted []Located, err error) {
	done, err := Change(ctx, path, func([]Located) (Changes, error) { return Changes{Delete: keys}, nil })
	return done.Deleted, err
}

// byKey returns the indexes of documents. Of two with the same key, it is the first.
func byKey(docs []Located) map[string]int {
	at := make(map[string]int, len(docs))
	for i, d := range slices.Backward(docs) {
		at[d.Key] = i
	}
	return at
}
