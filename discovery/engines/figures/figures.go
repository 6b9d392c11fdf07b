package figures

// Value is one figure, if the engine has said it.
type Value struct {
	N     float64
	Known bool
}

// Figures are what an engine says about itself.
type Figures struct {
	Running Value // requests that it works on
	Waiting Value // requests that it has not begun
	KVCache Value // share of its KV cache that is in use, from 0 to 1; of several ranks, that of the fullest

	PrefixQueries Value // tokens of prompts that it has looked for in its prefix cache, since it began
	PrefixHits    Value // of these, the tokens that it has found
	PrefixRate    Value // share that was found, from 0 to 1, of an engine that says only that

	CacheTokens Value // that its KV cache has room for; of several ranks, all together

	Adapters []string // in use by running or waiting requests, sorted; nil: it says nothing of adapters
}

// Known reports whether the engine has said anything.
func (f *Figures) Known() bool {
	for _, v := range [...]Value{f.Running, f.Waiting, f.KVCache, f.PrefixQueries, f.PrefixHits, f.PrefixRate} {
		if v.Known {
			return true
		}
	}
	return f.Adapters != nil
}

// Parse reads a whole page. It is never an error: lines that are not well formed say nothing.
func Parse(page []byte) Figures {
	var r Reader
	_, _ = r.Write(page) // never fails
	return r.Figures()
}
