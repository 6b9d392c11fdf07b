package document

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"colonnade/fleet"
)

// schemaBuilder describes structs by their tags, by the comments of their fields and by what is built in.
type schemaBuilder struct {
	comments map[string]string // see fieldComments
	builtin  builtinLayers
	defs     map[string]*schema
}

// document describes a kind of documents.
func (b schemaBuilder) document(k kind) *schema {
	s := b.structure(reflect.TypeOf(k.noun(identity{})).Elem(), b.builtin.kinds[k.Kind], false)
	s.Title, s.Description = k.form, k.about
	s.Properties = append(properties{{"key", &schema{Type: "string"}}}, s.Properties...)
	if !k.OfNode() { // these have the version of their software there
		s.Properties = append(s.Properties, property{"version", &schema{
			Type: "integer", Minimum: "1", Default: newestVersion,
			Description: "Version of documents that this one needs. Nodes ignore unknown fields only in documents of a newer version than they know.",
		}})
	}
	return s
}

// structure describes a struct. below holds the defaults of its fields. A layer of the defaults document has neither
// required fields nor fields that belong to a document of their own.
func (b schemaBuilder) structure(t reflect.Type, below map[string]any, layered bool) *schema {
	s := &schema{Type: "object", Additional: false}
	for field := range t.Fields() {
		name := jsonName(field.Tag)
		if !isField(name) || layered && field.Tag.Get("own") != "" {
			continue
		}
		if field.Tag.Get("need") != "" && !layered {
			s.Required = append(s.Required, name)
		}
		value := b.value(field.Type, field.Tag, below[name], layered)
		value.Description = b.describe(t, field, value)
		if _, isMap := below[name].(map[string]any); !isMap {
			value.Default = below[name]
		}
		s.Properties = append(s.Properties, property{name, value})
	}
	return s
}

// describe returns the comment of a field, with bounds that no keyword of the schema expresses.
func (b schemaBuilder) describe(t reflect.Type, field reflect.StructField, value *schema) string {
	text := b.comments[t.Name()+"."+field.Name]
	least, most, bounded := strings.Cut(field.Tag.Get("range"), ",")
	if !bounded || value.Ref == "" {
		return text
	}
	meaning, absent, hasDefault := strings.Cut(text, defaultMark)
	text = fmt.Sprintf("%s From %s to %s.", meaning, least, most)
	if hasDefault {
		text += defaultMark + absent
	}
	return text
}

// defaultMark begins the last sentence of a comment of a field without a built-in default: what its absence means.
const defaultMark = " Default: "

// value describes a value by its type and the tags of its field.
func (b schemaBuilder) value(t reflect.Type, tag reflect.StructTag, below any, layered bool) *schema {
	if _, ok := scalars[t]; ok {
		return b.scalar(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.value(t.Elem(), tag, below, layered)
	case reflect.Struct:
		fields, _ := below.(map[string]any)
		return b.structure(t, fields, layered)
	case reflect.Slice:
		return &schema{Type: "array", Items: b.value(t.Elem(), tag, nil, layered), MaxItems: MaxList}
	case reflect.Map:
		return b.mapping(t, tag, layered)
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Int:
		return numeric("integer", tag)
	case reflect.Float64:
		return numeric("number", tag)
	}
	if words := strings.Fields(tag.Get("oneof")); len(words) > 0 {
		return &schema{Type: "string", Enum: words}
	}
	return b.text(tag.Get("is"))
}

// mapping describes a map. A map of layers has engines as keys.
func (b schemaBuilder) mapping(t reflect.Type, tag reflect.StructTag, layered bool) *schema {
	if t == reflect.TypeFor[layer]() {
		return b.layer(tag.Get("of"))
	}
	names := b.text(tag.Get("keys"))
	if t.Elem() == reflect.TypeFor[layer]() {
		names = &schema{Enum: fleet.Engines}
	}
	return &schema{Type: "object", PropertyNames: names, Additional: b.value(t.Elem(), elementTag(tag), nil, layered), MaxProperties: MaxList}
}

// layer describes a layer of the defaults document, by the tag "of".
func (b schemaBuilder) layer(of string) *schema {
	id, name := identity{Kind: layerKinds[of]}, of+"-defaults"
	if _, done := b.defs[name]; !done {
		s := b.structure(reflect.TypeOf(id.blank()).Elem(), b.builtin.kinds[id.Kind], true)
		if of == "engine" {
			s.Properties = slices.DeleteFunc(s.Properties, func(p property) bool { return p.Name == "engine" })
		}
		b.defs[name] = s
	}
	return ref(name)
}

// layerKinds are the kinds of documents that layers of the defaults document lie below, by the tag "of".
var layerKinds = map[string]fleet.Kind{"model": fleet.KindModel, "pool": fleet.KindPool, "endpoint": fleet.KindEndpoint, "engine": fleet.KindEndpoint}

// text describes a text by the name of its rule.
func (b schemaBuilder) text(rule string) *schema {
	if rule == "" {
		return &schema{Type: "string", MaxLength: MaxText}
	}
	r, found := textRules[rule]
	if !found {
		panic("document: unknown rule " + rule) // a tag: every test of the schema meets it
	}
	b.defs[rule] = &schema{Type: "string", Pattern: r.pattern.String(), Description: sentence(r.reason), MaxLength: MaxText}
	return ref(rule)
}

// scalars are the types that decode themselves, with the name and the schemas of their values.
var scalars = map[reflect.Type]struct {
	name   string
	accept []*schema
}{
	reflect.TypeFor[fleet.Duration](): {"duration", []*schema{
		{Type: "string", Pattern: `^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`},
		{Type: "integer", Minimum: "0", Maximum: "0"},
	}},
	reflect.TypeFor[fleet.Bytes](): {"size", []*schema{
		{Type: "string", Pattern: `^[0-9]+(KiB|MiB|GiB)?$`},
		{Type: "integer", Minimum: "0"},
	}},
	reflect.TypeFor[fleet.Fallback](): {"fallback", []*schema{
		{Type: "string", Pattern: "^" + namePattern + "$"},
		{Type: "object", Required: []string{"external"}, Additional: false, Properties: properties{{"external", &schema{Type: "string", Pattern: "^" + namePattern + "$"}}}},
	}},
	reflect.TypeFor[fleet.KeyHash](): {"sha256", []*schema{{Type: "string", Pattern: `^[0-9A-Fa-f]{64}$`}}},
	reflect.TypeFor[time.Time]():     {"time", []*schema{{Type: "string", Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}`}}},
}

// scalar describes a type of scalars. Its description is the error that a wrong value gets.
func (b schemaBuilder) scalar(t reflect.Type) *schema {
	s := scalars[t]
	reason := unmarshal("", reflect.New(t).Interface().(json.Unmarshaler)).Reason
	b.defs[s.name] = &schema{AnyOf: s.accept, Description: sentence(reason)}
	return ref(s.name)
}

// sentence makes a sentence of the reason of an error.
func sentence(reason string) string {
	first, size := utf8.DecodeRuneInString(reason)
	return string(unicode.ToUpper(first)) + reason[size:] + "."
}

func ref(name string) *schema { return &schema{Ref: "#/$defs/" + name} }

// numeric describes a number by its bounds, and by the word that may stand in its place.
func numeric(name string, tag reflect.StructTag) *schema {
	s := &schema{Type: name}
	if least, most, bounded := strings.Cut(tag.Get("range"), ","); bounded {
		s.Minimum, s.Maximum = json.Number(least), json.Number(most)
	}
	if word := tag.Get("or"); word != "" {
		return &schema{AnyOf: []*schema{s, {Const: word}}}
	}
	return s
}
