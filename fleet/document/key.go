package document

import (
	"fmt"
	"strings"

	"colonnade/fleet"
)

// identity is a key taken apart. Colo is set for endpoints and servers only; Name is empty for whole keys only.
type identity struct {
	Kind       fleet.Kind
	Colo, Name string
}

// parseKey takes a key apart and checks the names in it.
func parseKey(key string) (identity, *fieldError) {
	if k := fleet.Kind(key); k == fleet.KindDefaults || k == fleet.KindDeletions {
		return identity{Kind: k}, nil
	}
	kind, rest, _ := strings.Cut(key, "/")
	id := identity{Kind: fleet.Kind(kind), Name: rest}
	switch id.Kind {
	case fleet.KindModel, fleet.KindPool, fleet.KindAccount:
	case fleet.KindAPIKey:
		return id, checkAPIKeyID(rest)
	case fleet.KindColo, fleet.KindEntry:
		return id, checkPlainName(rest)
	case fleet.KindEndpoint, fleet.KindServer:
		var found bool
		if id.Colo, id.Name, found = strings.Cut(rest, "/"); !found {
			return id, &fieldError{Reason: fmt.Sprintf("the key must be %s/<colo>/<name>", kind)}
		}
		if err := checkPlainName(id.Colo); err != nil {
			return id, err
		}
		if id.Kind == fleet.KindServer {
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
