package fleet

// merge lays trees over each other, the strongest last: maps merge, everything else replaces. The result may share
// parts with the layers.
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
