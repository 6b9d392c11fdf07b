package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"colonnade/fleet"
)

// schema is a JSON Schema (draft 2020-12), as far as documents need it.
type schema struct {
	Schema      string `json:"$schema,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Ref         string `json:"$ref,omitempty"`
	Type        string `json:"type,omitempty"`
	Default     any    `json:"default,omitempty"`

	Const     any         `json:"const,omitempty"`
	Enum      []string    `json:"enum,omitempty"`
	Minimum   json.Number `json:"minimum,omitempty"`
	Maximum   json.Number `json:"maximum,omitempty"`
	Pattern   string      `json:"pattern,omitempty"`
	MaxLength int         `json:"maxLength,omitempty"`

	Items    *schema `json:"items,omitempty"`
	MaxItems int     `json:"maxItems,omitempty"`

	Properties    properties `json:"properties,omitempty"`
	Required      []string   `json:"required,omitempty"`
	PropertyNames *schema    `json:"propertyNames,omitempty"`
	Additional    any        `json:"additionalProperties,omitempty"` // false, or a *schema
	MaxProperties int        `json:"maxProperties,omitempty"`

	AnyOf []*schema `json:"anyOf,omitempty"`
	AllOf []*schema `json:"allOf,omitempty"`
	Not   *schema   `json:"not,omitempty"`
	If    *schema   `json:"if,omitempty"`
	Then  *schema   `json:"then,omitempty"`

	Defs map[string]*schema `json:"$defs,omitempty"`
}

// properties are the fields of a map in their order, which editors follow.
type properties []property

type property struct {
	Name   string
	Schema *schema
}

// MarshalJSON writes the properties as a JSON object.
func (p properties) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for i, field := range p {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := readableJSON(field.Name)
		if err != nil {
			return nil, err
		}
		value, err := readableJSON(field.Schema)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s:%s", name, value)
	}
	return fmt.Appendf(nil, "{%s}", out.Bytes()), nil
}

// readableJSON is json.Marshal without the escapes that are meant for HTML.
func readableJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSpace(text.Bytes()), err
}

// Schema returns the JSON Schema (draft 2020-12) of a document as it stands in a file, with its key. The schema accepts
// what [Check] accepts, and more: it cannot express all rules, and accepts any document of a newer version.
func Schema() ([]byte, error) {
	root, err := documentSchema()
	if err != nil {
		return nil, err
	}
	text, err := readableJSON(root)
	if err != nil {
		return nil, fmt.Errorf("cannot write the schema: %w", err)
	}
	var indented bytes.Buffer
	err = json.Indent(&indented, append(text, '\n'), "", "  ")
	return indented.Bytes(), err
}

func documentSchema() (*schema, error) {
	comments, err := fieldComments()
	if err != nil {
		return nil, err
	}
	b := schemaBuilder{comments: comments, builtin: parseBuiltin(), defs: map[string]*schema{}}
	key := &schema{Type: "string", Description: "Key of the document: " + keyForms() + "."}
	root := &schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "Colonnade document",
		Description: "A document of a Colonnade fleet, with its key.",
		Type:        "object", Properties: properties{{"key", key}}, Required: []string{"key"}, Defs: b.defs,
	}
	for _, k := range kinds {
		pattern := &schema{Pattern: k.pattern()}
		key.AnyOf = append(key.AnyOf, pattern)
		b.defs[string(k.Kind)] = b.document(k)
		root.AllOf = append(root.AllOf, &schema{
			If:   &schema{Properties: properties{{"key", pattern}, knownVersion(k.Kind)}},
			Then: ref(string(k.Kind)),
		})
	}
	return root, nil
}

// knownVersion matches documents of a version that this program knows. In newer ones, unknown fields are accepted.
func knownVersion(of fleet.Kind) property {
	atMost := func(known int) *schema {
		return &schema{Not: &schema{Type: "integer", Minimum: json.Number(strconv.Itoa(known + 1))}}
	}
	if of.OfNode() {
		return property{"protocol", &schema{Properties: properties{{"max", atMost(fleet.Protocol)}}}}
	}
	return property{"version", atMost(newestVersion)}
}
