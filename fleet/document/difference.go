package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Difference is a field that two versions of a document do not have alike.
type Difference struct {
	Field    string // such as queue.limit, or routing.steps[1].pick
	Old, New any    // text, number, bool, list or map; nil = the field is absent
}

// Differences compares two versions of a document field by field, as they are written: defaults do not count, and neither do
// comments, the order of fields, or the style. A version that is nil has no fields. The differences are sorted by field. The error is an
// *InvalidError about a version that cannot be read.
func Differences(key string, before, after []byte) ([]Difference, error) {
	var trees [2]map[string]any
	for i, value := range [][]byte{before, after} {
		if value == nil {
			continue
		}
		tree, err := parseTree(value)
		if err != nil {
			return nil, err.invalid(key, 0)
		}
		trees[i] = tree
	}
	var found []Difference
	compareMaps("", trees[0], trees[1], &found)
	return found, nil
}

func compareMaps(path string, a, b map[string]any, found *[]Difference) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		field := fieldName(name)
		if path != "" {
			field = path + "." + field
		}
		compareValues(field, a[name], b[name], found)
	}
}

// compareValues compares two values, of which nil is none. Maps are compared by their fields, also if one side has none, and lists of
// maps by their elements; other lists as a whole, since their elements have no names.
func compareValues(field string, a, b any, found *[]Difference) {
	inA, mapA := a.(map[string]any)
	inB, mapB := b.(map[string]any)
	listA, isListA := a.([]any)
	listB, isListB := b.([]any)
	switch {
	case a != nil && b != nil && sameTree(a, b):
	case (mapA || a == nil) && (mapB || b == nil) && len(inA)+len(inB) > 0:
		compareMaps(field, inA, inB, found)
	case isListA && isListB && ofMaps(listA) && ofMaps(listB):
		for i := range max(len(listA), len(listB)) {
			compareValues(fmt.Sprintf("%s[%d]", field, i), at(listA, i), at(listB, i), found)
		}
	default:
		*found = append(*found, Difference{Field: field, Old: a, New: b})
	}
}

func ofMaps(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { _, is := v.(map[string]any); return !is })
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// FieldText returns the value of a field as it may stand in a document, on one line; empty for nil.
func FieldText(v any) string {
	if v == nil {
		return ""
	}
	if text, ok := v.(string); ok && plainFieldName.MatchString(text) {
		return text
	}
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}
