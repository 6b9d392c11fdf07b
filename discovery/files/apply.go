package files

import (
	"context"
	"errors"
	"slices"

	"colonnade/fleet/document"
)

// ErrExists says that there is a document under the key already.
var ErrExists = errors.New("the document exists already")

// Applied is what Apply did with one document.
type Applied struct {
	Located        // as it stands now
	Created   bool // there was no document of this key before
	Unchanged bool // it was there before, word for word
}

// Apply puts documents into the files of a path: each in place of the one with its key, or else into the file that holds documents of its
// kind; see Edit. All are written or none.
func Apply(ctx context.Context, path string, docs []document.Raw) ([]Applied, error) {
	applied := make([]Applied, len(docs))
	after, err := Edit(ctx, path, func(all []Located) ([]Located, error) {
		there := byKey(all)
		for i, d := range docs {
			at, found := there[d.Key]
			applied[i] = Applied{Created: !found}
			if !found {
				all = append(all, Located{Raw: d})
				continue
			}
			applied[i].Unchanged = sameDocument(all[at].Raw, d)
			all[at].Raw = d
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	there := byKey(after)
	for i, d := range docs {
		applied[i].Located = after[there[d.Key]]
	}
	return applied, nil
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
	_, err = Edit(ctx, path, func(all []Located) ([]Located, error) {
		deleted = nil
		return slices.DeleteFunc(all, func(l Located) bool {
			if !slices.Contains(keys, l.Key) {
				return false
			}
			deleted = append(deleted, l)
			return true
		}), nil
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}

// byKey returns the indexes of documents. Of two with the same key, it is the first.
func byKey(docs []Located) map[string]int {
	at := make(map[string]int, len(docs))
	for i, d := range slices.Backward(docs) {
		at[d.Key] = i
	}
	return at
}
