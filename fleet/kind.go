package fleet

import (
	"fmt"
	"strings"
)

// Kind is the first part of a document's key.
type Kind string

// The kinds of documents. KindDefaults and KindDeletions are whole keys; of the others, the rest of the key is the
// document's name, and for endpoints and servers the colo and the name.
const (
	KindDefaults  Kind = "defaults"
	KindDeletions Kind = "deletions"
	KindModel     Kind = "models"
	KindPool      Kind = "pools"
	KindColo      Kind = "colos"
	KindAccount   Kind = "accounts"
	KindAPIKey    Kind = "keys"
	KindEndpoint  Kind = "endpoints"
	KindServer    Kind = "servers"
	KindEntry     Kind = "entries"
)

// identity is a key taken apart. Colo is set for endpoints and servers only; Name is empty for whole keys only.
type identity struct {
	Kind       Kind
	Colo, Name string
}

// parseKey takes a key apart and checks the names in it.
func parseKey(key string) (identity, *fieldError) {
	if k := Kind(key); k == KindDefaults || k == KindDeletions {
		return identity{Kind: k}, nil
	}
	kind, rest, _ := strings.Cut(key, "/")
	id := identity{Kind: Kind(kind), Name: rest}
	switch id.Kind {
	case KindModel, KindPool, KindAccount:
	case KindAPIKey:
		return id, checkAPIKeyID(rest)
	case KindColo, KindEntry:
		return id, checkPlainName(rest)
	case KindEndpoint, KindServer:
		var found bool
		if id.Colo, id.Name, found = strings.Cut(rest, "/"); !found {
			return id, &fieldError{Reason: fmt.Sprintf("the key must be %s/<colo>/<name>", kind)}
		}
		if err := checkPlainName(id.Colo); err != nil {
			return id, err
		}
		if id.Kind == KindServer {
			return id, checkPlainName(id.Name)
		}
	default:
		return id, &fieldError{Reason: "unknown kind of document; the key must be defaults or deletions, or begin with models/, pools/, " +
			"colos/, accounts/, keys/, endpoints/, servers/ or entries/"}
	}
	return id, checkKeyName(id.Name)
}

// documentKey is the reverse of parseKey.
func documentKey(kind Kind, names ...string) string {
	return string(kind) + "/" + strings.Join(names, "/")
}

// checkPlainName checks the name of a colo or of a node, which stands between slashes in keys and names folders.
func checkPlainName(name string) *fieldError {
	if strings.Contains(name, "/") {
		return &fieldError{Value: quote(name), Reason: "the name of a colo or of a node must not contain a slash"}
	}
	return checkKeyName(name)
}

func checkKeyName(name string) *fieldError {
	if !validName(name) {
		return &fieldError{Value: quote(name), Reason: "in the key: " + acceptedName}
	}
	return nil
}
