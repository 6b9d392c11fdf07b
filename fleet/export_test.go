package fleet

// ParseTree reads a document into maps, lists and scalars.
func ParseTree(value []byte) (map[string]any, error) {
	tree, err := parseTree(value)
	return tree, err.invalid("", 0)
}
