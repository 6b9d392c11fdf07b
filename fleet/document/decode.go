package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decoder fills structs from trees. It matches fields by their json tags, with case, and checks the rules of the other
// tags (rules.go) on each value that is present, so that an error names its path.
type decoder struct {
	partial bool // for a layer of defaults: nothing is required
	lenient bool // skip unknown fields: the document is newer than this program
	checked bool // skip the rules: each layer was checked before
}

// autoConcurrency is stored for the word in the tag "or", which a document may have in place of a whole number. No range
// contains it.
const autoConcurrency = -1

// decode fills out, which points to a zero struct.
func (d decoder) decode(tree map[string]any, out any) *fieldError {
	return d.structure(tree, reflect.ValueOf(out).Elem())
}

func (d decoder) structure(tree map[string]any, out reflect.Value) *fieldError {
	t, found := out.Type(), 0
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name := jsonName(tag)
		value, present := tree[name]
		switch {
		case name == "":
			if err := refuseUnsupported(tree, tag); err != nil {
				return err
			}
			continue
		case name == "-":
			continue
		case !present && tag.Get("need") != "" && !d.partial:
			return (&fieldError{Reason: "the field is required"}).in(name)
		case !present:
			continue
		case tag.Get("own") != "" && d.partial:
			return (&fieldError{Reason: "the field belongs to a document of its own; it has no default"}).in(name)
		}
		found++
		if err := d.value(value, out.Field(i), tag); err != nil {
			return err.in(name)
		}
	}
	if found < len(tree) && !d.lenient {
		return unknown(tree, t)
	}
	return nil
}

func jsonName(tag reflect.StructTag) string {
	name, _, _ := strings.Cut(tag.Get("json"), ",")
	return name
}

// isField reports whether documents may have a field of this json name.
func isField(name string) bool { return name != "" && name != "-" }

// refuseUnsupported refuses the field that the tags of a blank field name. Documents of a newer version are no exception:
// their authors would rely on the field.
func refuseUnsupported(tree map[string]any, tag reflect.StructTag) *fieldError {
	name := tag.Get("unsupported")
	value, present := tree[name]
	if name == "" || !present {
		return nil
	}
	reason := "not supported by this version; leave the field out"
	if instead := tag.Get("instead"); instead != "" {
		reason += ", and " + instead
	}
	return (&fieldError{Value: describe(value), Reason: reason}).in(name)
}

// unknown names the first field of tree that t does not have. The value is not shown, since it may be a secret.
func unknown(tree map[string]any, t reflect.Type) *fieldError {
	var accepted []string
	for field := range t.Fields() {
		if name := jsonName(field.Tag); isField(name) {
			accepted = append(accepted, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if !slices.Contains(accepted, name) {
			return (&fieldError{Reason: "unknown field; accepted here: " + strings.Join(accepted, ", ")}).in(fieldName(name))
		}
	}
	return nil
}

// value decodes one value and checks it.
func (d decoder) value(tree any, out reflect.Value, tag reflect.StructTag) *fieldError {
	if word := tag.Get("or"); word != "" && tree == word {
		out.SetInt(autoConcurrency)
		return nil
	}
	err := d.convert(tree, out, tag)
	if err == nil && !d.checked {
		err = checkRules(out, tag)
	}
	if err != nil && err.Value == "" && err.Field == "" && tag.Get("secret") == "" {
		err = &fieldError{Value: describe(tree), Reason: err.Reason}
	}
	return err
}

func (d decoder) convert(tree any, out reflect.Value, tag reflect.StructTag) *fieldError {
	if u, ok := out.Addr().Interface().(json.Unmarshaler); ok {
		return unmarshal(tree, u)
	}
	switch v := tree.(type) {
	case map[string]any:
		return d.fromMap(v, out, tag)
	case []any:
		return d.fromList(v, out, tag)
	}
	switch out.Kind() {
	case reflect.Bool:
		v, ok := tree.(bool)
		out.SetBool(v)
		return shape(ok, "must be true or false, unquoted")
	case reflect.String:
		v, ok := tree.(string)
		out.SetString(v)
		return shape(ok, "must be text; quote it (unquoted, YAML reads no, off and 1e3 as something else)")
	case reflect.Int:
		v, ok := tree.(int64)
		out.SetInt(v)
		reason := "must be a whole number, without quotes, point or exponent"
		if word := tag.Get("or"); word != "" {
			reason += "; or " + word
		}
		return shape(ok, reason)
	case reflect.Float64:
		v, ok := tree.(float64)
		if i, whole := tree.(int64); whole {
			v, ok = float64(i), true
		}
		out.SetFloat(v)
		return shape(ok, "must be a number, unquoted")
	case reflect.Slice:
		return &fieldError{Reason: "must be a list"}
	default:
		return &fieldError{Reason: "must be a map"}
	}
}

func shape(ok bool, reason string) *fieldError {
	if ok {
		return nil
	}
	return &fieldError{Reason: reason}
}

// unmarshal fills types that read themselves from JSON. All of them are scalars.
func unmarshal(tree any, out json.Unmarshaler) *fieldError {
	text, err := json.Marshal(tree)
	if err != nil { // an infinite number
		text = []byte(`""`)
	}
	err = out.UnmarshalJSON(text)
	t, isTime := out.(*time.Time)
	switch {
	case err == nil && isTime:
		*t = t.UTC()
	case isTime:
		return &fieldError{Reason: "must be a time such as 2026-01-31T12:00:00Z"}
	case err != nil:
		return &fieldError{Reason: err.Error()}
	}
	return nil
}

func (d decoder) fromMap(tree map[string]any, out reflect.Value, tag reflect.StructTag) *fieldError {
	switch out.Kind() {
	case reflect.Struct:
		return d.structure(tree, out)
	case reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		return d.structure(tree, out.Elem())
	case reflect.Map:
		if out.Type() == reflect.TypeFor[layer]() {
			out.Set(reflect.ValueOf(layer(tree)))
			return nil
		}
		return d.entries(tree, out, tag)
	}
	return &fieldError{Reason: fmt.Sprintf("must be %s, not a map", wanted(out.Kind()))}
}

// entries fills a map, in the order of its keys, so that of several errors always the same is returned.
func (d decoder) entries(tree map[string]any, out reflect.Value, tag reflect.StructTag) *fieldError {
	out.Set(reflect.MakeMapWithSize(out.Type(), len(tree)))
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		if err := checkText(tag.Get("keys"), key); err != nil && !d.checked {
			return err.in(fieldName(key))
		}
		element := reflect.New(out.Type().Elem()).Elem()
		if err := d.value(tree[key], element, elementTag(tag)); err != nil {
			return err.in(fieldName(key))
		}
		out.SetMapIndex(reflect.ValueOf(key), element)
	}
	return nil
}

// elementTag returns the tag for the elements of a map: the maps in a map have rules of their own for their keys.
func elementTag(tag reflect.StructTag) reflect.StructTag {
	if inner := tag.Get("inner"); inner != "" {
		return reflect.StructTag(`keys:"`+inner+`" `) + tag // the first one counts
	}
	return tag
}

func (d decoder) fromList(tree []any, out reflect.Value, tag reflect.StructTag) *fieldError {
	if out.Kind() != reflect.Slice {
		return &fieldError{Reason: fmt.Sprintf("must be %s, not a list", wanted(out.Kind()))}
	}
	out.Set(reflect.MakeSlice(out.Type(), len(tree), len(tree)))
	for i, element := range tree {
		if err := d.value(element, out.Index(i), tag); err != nil {
			return err.at(i)
		}
	}
	return nil
}

func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Int, reflect.Float64:
		return "a number"
	}
	return "a map"
}

// describe returns a value as an error shows it.
func describe(tree any) string {
	switch v := tree.(type) {
	case string:
		return quote(v)
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	}
	return fmt.Sprint(tree)
}

// scalarType names the type of a scalar in an error.
func scalarType(v any) string {
	if _, ok := v.(bool); ok {
		return "true or false"
	}
	return "a number"
}
