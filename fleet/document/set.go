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
	yielding map[string]bool // see Yield
	claims   claims
	revision int64

	// Parts of a table, which the next one shares with it if they do not change:
	groups          map[string]*group // of the documents in good but accounts, see groupName
	endpoints       fleet.EndpointIndexBuilder
	accounts        fleet.AccountIndexBuilder
	changedAccounts map[string]bool // names, since the last table
}

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{
		builtin:  parseBuiltin(),
		good:     map[string]*parsed{},
		apiKeys:  apiKeys{byID: map[string]storedAPIKey{}},
		rejected: map[string]fleet.Rejection{},
		yielding: map[string]bool{},
		claims:   claims{byKey: map[string]claim{}},

		groups:          map[string]*group{},
		changedAccounts: map[string]bool{},
	}
}

// Yield makes a document lose the alias, URL, colo or hash that it claims to any document that claims the same and does not
// yield. It ends when the document is put again or deleted.
func (s *Set) Yield(key string) {
	if id, isAPIKey := apiKeyID(key); isAPIKey {
		s.apiKeys.yield(id)
		return
	}
	s.yielding[key] = true
	s.reorder(key)
}

func (s *Set) endYield(key string) {
	if s.yielding[key] {
		delete(s.yielding, key)
		s.reorder(key)
	}
}

// Put takes a version of a document. For a bad one it returns an *InvalidError; the last good version stays in force, and
// later tables have the rejection.
func (s *Set) Put(key string, value []byte, revision int64) error {
	s.revision = max(s.revision, revision)
	s.endYield(key)
	doc, ferr := parse(key, value)
	if ferr != nil {
		inForce, lastGood := s.inForce(key)
		r := ferr.rejection(key, revision, lastGood)
		r.InForce = inForce
		s.rejected[key] = r
		return ferr.invalid(key, revision)
	}
	delete(s.rejected, key)
	if k, isAPIKey := doc.built.(*fleet.APIKey); isAPIKey {
		s.apiKeys.put(storedAPIKey{APIKey: k, revision: revision})
		return nil
	}
	doc.revision = revision
	before := s.good[key]
	s.good[key] = doc
	s.change(doc, !s.claims.put(key, doc) && before != nil)
	s.forget(before, doc)
	return nil
}

// inForce returns the revision of the last good version of a document.
func (s *Set) inForce(key string) (revision int64, lastGood bool) {
	if id, isAPIKey := apiKeyID(key); isAPIKey {
		k, ok := s.apiKeys.byID[id]
		return k.revision, ok
	}
	doc, ok := s.good[key]
	if !ok {
		return 0, false
	}
	return doc.revision, true
}

// Delete removes a document, with its last good version.
func (s *Set) Delete(key string, revision int64) {
	s.revision = max(s.revision, revision)
	s.endYield(key)
	delete(s.rejected, key)
	if id, isAPIKey := apiKeyID(key); isAPIKey {
		s.apiKeys.remove(id)
		return
	}
	if doc, ok := s.good[key]; ok {
		delete(s.good, key)
		delete(s.claims.byKey, key)
		s.drop(doc)
		s.forget(doc, nil)
	}
}

// Noun returns the noun of the last good version of a document, as a table has it: a pointer to a [fleet.Model], a
// [fleet.Server] and so on; nil if there is none.
func (s *Set) Noun(key string) any {
	if id, isAPIKey := apiKeyID(key); isAPIKey {
		if k, ok := s.apiKeys.byID[id]; ok {
			return k.APIKey
		}
		return nil
	}
	doc, ok := s.good[key]
	if !ok {
		return nil
	}
	noun, err := s.resolver().noun(doc)
	if err != nil {
		return nil
	}
	return noun
}

// Keys returns the keys of all good documents, sorted.
func (s *Set) Keys() []string {
	keys := slices.AppendSeq(s.apiKeys.documentKeys(), maps.Keys(s.good))
	slices.Sort(keys)
	return keys
}

// Known returns the keys of all documents, good or rejected, sorted.
func (s *Set) Known() []string {
	keys := slices.AppendSeq(s.Keys(), maps.Keys(s.rejected))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// CheckKey returns an *InvalidError unless a document may have this key.
func CheckKey(key string) error {
	_, err := parseKey(key)
	return err.invalid(key, 0)
}

// Check returns an *InvalidError unless the document is acceptable by itself.
func Check(key string, value []byte) error {
	_, err := parse(key, value)
	return err.invalid(key, 0)
}
