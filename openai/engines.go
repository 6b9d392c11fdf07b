package openai

import "slices"

// Engines is a set of kinds of engines. The zero value is the empty set.
type Engines uint32

// kinds are the kinds of engines, as documents of endpoints name them. Nodes tell each other sets of them: new ones go to the end.
var kinds = []string{"vllm", "sglang", "tgi", "tei", "llamacpp", "ollama", "triton", kindCompatible}

// With returns the set with one kind more. An unknown one counts as compatible with OpenAI's API.
func (s Engines) With(kind string) Engines {
	at := slices.Index(kinds, kind)
	if at < 0 {
		at = len(kinds) - 1
	}
	return s | 1<<at
}

// DialectByKind reports whether the dialect of the route depends on the kind of the engines: see [Route.DialectWith].
func (r Route) DialectByKind() bool {
	row := rowsByPath[r.Path]
	return row != nil && row.byKind
}

// DialectWith returns the dialect of the route with engines of some kinds: that of those which have the path, if they have one in common, else the
// path's own. Only TGI and TEI have one that is not the path's.
func (r Route) DialectWith(engines Engines) Dialect {
	if !r.DialectByKind() {
		return r.Dialect
	}
	row, found := rowsByPath[r.Path], []Dialect{}
	for at, kind := range kinds {
		if engines&(1<<at) != 0 && row.support(kind) != Unsupported {
			found = append(found, row.dialectOf(kind))
		}
	}
	if found = slices.Compact(found); len(found) == 1 {
		return found[0]
	}
	return r.Dialect
}

func (row *pathRow) dialectOf(kind string) Dialect {
	switch kind {
	case "tgi":
		return DialectTGI
	case "tei":
		return DialectTEI
	}
	return row.dialect
}

// have reports whether engines of one of the kinds have a path, or one that it is translated to.
func (s Engines) have(row *pathRow) bool {
	for at, kind := range kinds {
		if s&(1<<at) != 0 && row.support(kind) != Unsupported {
			return true
		}
	}
	return false
}
