package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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

	Properties    map[string]*schema `json:"properties,omitempty"`
	Required      []string           `json:"required,omitempty"`
	PropertyNames *schema            `json:"propertyNames,omitempty"`
	Additional    any                `json:"additionalProperties,omitempty"` // false, or a *schema
	MaxProperties int                `json:"maxProperties,omitempty"`

	AnyOf []*schema `json:"anyOf,omitempty"`
	AllOf []*schema `json:"allOf,omitempty"`
	Not   *schema   `json:"not,omitempty"`
	If    *schema   `json:"if,omitempty"`
	Then  *schema   `json:"then,omitempty"`

	Defs map[string]*schema `json:"$defs,omitempty"`
}

// describedKind is a kind of documents as the schema shows it.
type describedKind struct {
	kind  Kind
	key   string // the form of the key
	names string // what follows the kind in the key; a regular expression
	about string
}

const (
	anyName   = `[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}`
	plainName = `[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}`
)

var describedKinds = []describedKind{
	{KindDefaults, "defaults", "", "Defaults for the fields of other documents."},
	{KindModel, "models/<model>", "/" + anyName, "A model that clients ask for by name."},
	{KindPool, "pools/<pool>", "/" + anyName, "Permits and queue of the endpoints that serve the same models. A pool without a document has the defaults."},
	{KindEndpoint, "endpoints/<colo>/<endpoint>", "/" + plainName + "/" + anyName, "A running engine in a colo."},
	{KindColo, "colos/<colo>", "/" + plainName, "A location with endpoints."},
	{KindAccount, "accounts/<account>", "/" + anyName, "A tenant that requests are billed to."},
	{KindAPIKey, "keys/<id>", "/" + anyName, "An API key, by its hash. Written by colonnade keys; the id is the part of the key between cn_ and its last underscore."},
	{KindDeletions, "deletions", "", "Confirmation of deletions that nodes hold back. Written by colonnade config."},
	{KindServer, "servers/<colo>/<node>", "/" + plainName + "/" + plainName, "A colo server. Written by the server itself, with a lease."},
	{KindEntry, "entries/<node>", "/" + plainName, "An entry. Written by the entry itself, with a lease."},
}

// Schema returns the JSON Schema (draft 2020-12) of a document as it stands in a file, with its key. It is a superset:
// what [Check] accepts, the schema accepts. Which values of a version newer than this program's are accepted, it cannot
// say.
func Schema() ([]byte, error) {
	comments, err := fieldComments(sources)
	if err != nil {
		return nil, fmt.Errorf("cannot read the comments of fields: %w", err)
	}
	b := schemaBuilder{comments: comments, builtin: parseBuiltin(), defs: map[string]*schema{}}
	root := &schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "Colonnade document",
		Description: "A document of a Colonnade fleet, with its key.",
		Type:        "object", Required: []string{"key"}, Defs: b.defs,
	}
	key := &schema{Type: "string"}
	root.Properties = map[string]*schema{"key": key}
	var forms []string
	for _, k := range describedKinds {
		forms = append(forms, k.key)
		pattern := &schema{Pattern: "^" + string(k.kind) + k.names + "$"}
		key.AnyOf = append(key.AnyOf, pattern)
		b.defs[string(k.kind)] = b.document(k)
		known := knownVersion(k.kind)
		known.Properties["key"] = pattern
		root.AllOf = append(root.AllOf, &schema{If: known, Then: ref(string(k.kind))})
	}
	key.Description = "Key of the document: " + strings.Join(forms, ", ") + "."
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	err = out.Encode(root)
	return text.Bytes(), err
}

// knownVersion matches documents of a version that this program knows. In newer ones, unknown fields are accepted.
func knownVersion(kind Kind) *schema {
	atMost := func(known int) *schema {
		return &schema{Not: &schema{Type: "integer", Minimum: json.Number(strconv.Itoa(known + 1))}}
	}
	if kind == KindServer || kind == KindEntry {
		protocol := &schema{Properties: map[string]*schema{"max": atMost(Protocol)}}
		return &schema{Properties: map[string]*schema{"protocol": protocol}}
	}
	return &schema{Properties: map[string]*schema{"version": atMost(Version)}}
}
