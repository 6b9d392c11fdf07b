package document

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v2"
)

// Bounds of one document.
const (
	MaxSize  = 64 << 10 // bytes
	MaxDepth = 12       // levels of maps and lists
	MaxList  = 512      // elements of a list or map
	MaxText  = 1024     // bytes of a text, and of a field's name
)

// A tree is the content of a document before it is decoded: map[string]any, []any, string, int64, float64 and bool.
// Trees are shared between tables and never modified.

// plain turns the result of a parser into a tree, and refuses values that no document may contain.
func plain(raw any, depth int) (any, *fieldError) {
	switch v := raw.(type) {
	case yaml.MapSlice:
		return plainMap(v, depth)
	case []any:
		return plainList(v, depth)
	case string:
		return v, checkPrintable(v)
	case json.Number:
		return number(v), nil
	case int:
		return int64(v), nil
	case uint64: // beyond int64: as a float it is out of every range
		return float64(v), nil
	case bool, int64, float64:
		return v, nil
	case nil:
		return nil, &fieldError{Value: "null", Reason: "null is not accepted; leave the field out to have its default"}
	}
	return nil, &fieldError{Reason: fmt.Sprintf("a value of type %T is not accepted", raw)}
}

func plainMap(items yaml.MapSlice, depth int) (any, *fieldError) {
	if depth > MaxDepth {
		return nil, tooDeep()
	}
	if len(items) > MaxList {
		return nil, tooLong(len(items))
	}
	out := make(map[string]any, len(items))
	for _, item := range items {
		key, ok := item.Key.(string)
		if !ok {
			return nil, badKey(item.Key)
		}
		if err := checkPrintable(key); err != nil {
			return nil, err
		}
		if _, double := out[key]; double {
			return nil, (&fieldError{Reason: "the field is given twice"}).in(fieldName(key))
		}
		element, err := plain(item.Value, depth+1)
		if err != nil {
			return nil, err.in(fieldName(key))
		}
		out[key] = element
	}
	return out, nil
}

func badKey(key any) *fieldError {
	switch key.(type) {
	case nil:
		return &fieldError{Value: "null", Reason: "a field's name is missing, or must be quoted"}
	case bool, int, int64, uint64, float64:
		return &fieldError{Value: fmt.Sprint(key), Reason: "YAML reads this field's name as " + scalarType(key) + ", not as text; quote it"}
	}
	return &fieldError{Reason: "a field's name must be text"}
}

func plainList(list []any, depth int) (any, *fieldError) {
	if depth > MaxDepth {
		return nil, tooDeep()
	}
	if len(list) > MaxList {
		return nil, tooLong(len(list))
	}
	out := make([]any, len(list))
	for i, raw := range list {
		element, err := plain(raw, depth+1)
		if err != nil {
			return nil, err.at(i)
		}
		out[i] = element
	}
	return out, nil
}

func tooDeep() *fieldError {
	return &fieldError{Reason: fmt.Sprintf("nested too deeply; at most %d levels are accepted", MaxDepth)}
}

func tooLong(n int) *fieldError {
	return &fieldError{Reason: fmt.Sprintf("%d elements; at most %d are accepted", n, MaxList)}
}

// checkPrintable refuses texts that cannot be shown, logged or sent unchanged.
func checkPrintable(s string) *fieldError {
	if len(s) > MaxText {
		return &fieldError{Reason: fmt.Sprintf("a text of %d bytes; at most %d are accepted", len(s), MaxText)}
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return &fieldError{Reason: "a text must not contain line breaks or other control characters"}
		}
	}
	return nil
}

// number keeps whole numbers exact.
func number(n json.Number) any {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i
	}
	f, _ := n.Float64() // beyond float64 it is infinite, and out of every range
	return f
}

// plainFieldName matches the names of fields that need no quotes in a path.
var plainFieldName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// fieldName shows a field's name in a path.
func fieldName(name string) string {
	if plainFieldName.MatchString(name) {
		return name
	}
	return quote(name)
}
