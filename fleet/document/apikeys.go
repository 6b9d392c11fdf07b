package document

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"colonnade/fleet"
)

// EncodeAPIKey returns the document that describes k.
func EncodeAPIKey(k *fleet.APIKey) (Raw, error) {
	value, err := json.Marshal(k)
	return Raw{Key: fleet.KindAPIKey.Key(k.ID), Value: value}, err
}

// apiKeys holds the good documents of API keys. There may be many more of these than of all other documents together, so
// they are kept apart and decoded, and tables share what has not changed from one to the next.
type apiKeys struct {
	byID  map[string]storedAPIKey
	index fleet.APIKeyIndexBuilder
}

type storedAPIKey struct {
	*fleet.APIKey
	revision int64
	yields   bool // another document with the same hash goes first
}

func (s *apiKeys) put(k storedAPIKey) {
	s.remove(k.ID)
	s.byID[k.ID] = k
	alike := append(slices.Clip(s.index.Alike(k.SHA256)), k.APIKey)
	slices.SortFunc(alike, s.compare)
	s.index.Replace(k.SHA256, alike)
}

// compare orders API keys by their right to a hash: those that yield come last, and otherwise the order is that of the
// IDs.
func (s *apiKeys) compare(a, b *fleet.APIKey) int {
	if s.byID[a.ID].yields == s.byID[b.ID].yields {
		return cmp.Compare(a.ID, b.ID)
	}
	if s.byID[b.ID].yields {
		return -1
	}
	return 1
}

func (s *apiKeys) remove(id string) {
	k, ok := s.byID[id]
	if !ok {
		return
	}
	delete(s.byID, id)
	rest := slices.Clone(s.index.Alike(k.SHA256))
	s.index.Replace(k.SHA256, slices.DeleteFunc(rest, func(other *fleet.APIKey) bool { return other.ID == id }))
}

func (s *apiKeys) yield(id string) {
	if k, ok := s.byID[id]; ok {
		k.yields = true
		s.put(k)
	}
}

// documentKeys returns the keys of the documents, in any order.
func (s *apiKeys) documentKeys() []string {
	keys := make([]string, 0, len(s.byID))
	for id := range s.byID {
		keys = append(keys, fleet.KindAPIKey.Key(id))
	}
	return keys
}

// checkAPIKey checks what the fields of an API key say together.
func checkAPIKey(k *fleet.APIKey) *fieldError {
	switch {
	case !k.ForWorkers() && k.Account == "":
		return &fieldError{Field: "account", Reason: "the field is required"}
	case k.ForWorkers() && k.Account != "":
		return &fieldError{Field: "account", Reason: "a key with role: worker belongs to no account; take one of the two out"}
	case k.ForWorkers() && k.Limits != (fleet.RateLimits{}):
		return &fieldError{Field: "limits", Reason: "a key with role: worker is for no requests, so it has no limits; take one of the two out"}
	}
	return nil
}

// errKeysInAccount refuses the field keys of an account's document.
func errKeysInAccount(account string) *fieldError {
	return &fieldError{Field: "keys", Reason: "API keys are documents of their own; take the field out, and make one with: colonnade keys create -account " +
		account + "; a key stays valid if a document keys/<id> has account: " + account + " and the sha256, created and expires that stand here"}
}

// apiKeyID returns the ID in the key of an API key's document.
func apiKeyID(key string) (id string, ok bool) {
	return strings.CutPrefix(key, string(fleet.KindAPIKey)+"/")
}

// checkAPIKeyID refuses an id that is a whole API key: ids stand in listings, in the names of documents and in logs.
func checkAPIKeyID(id string) *fieldError {
	if hideKeys(id) != id {
		return &fieldError{Reason: `in the key: keys/<id> has the id of an API key, which is what stands in it between "cn_" and its last "_"; never the key itself`}
	}
	return checkKeyName("<id>", id)
}
