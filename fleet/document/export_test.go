package document

import "reflect"

// ParseTree reads a document into maps, lists and scalars.
func ParseTree(value []byte) (map[string]any, error) {
	tree, err := parseTree(value)
	return tree, err.invalid("", 0)
}

// SchemaPart is a part of the schema before it is written, and DocumentSchema the whole.
type SchemaPart = schema

var DocumentSchema = documentSchema

// DefaultsType is the struct of the defaults document.
var DefaultsType = reflect.TypeFor[defaults]()
