package document

// merge merges trees, the strongest last: maps are merged, and all other values replace. The result may share parts with
// the trees.
func merge(layers ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, layer := range layers {
		for name, value := range layer {
			out[name] = mergeValue(out[name], value)
		}
	}
	return out
}

func mergeValue(below, above any) any {
	b, isMap := below.(map[string]any)
	a, both := above.(map[string]any)
	if isMap && both {
		return merge(b, a)
	}
	return above
}
