package fleet

import (
	"fmt"
	"strings"
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
