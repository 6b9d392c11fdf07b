package transport

import "colonnade/openai"

// renamer replaces the model's name in what is left of a response; nil replaces nothing.
type renamer struct {
	names *openai.ModelRenamer
	buf   []byte
}

// newRenamer returns a renamer for a response with this head and framing; nil if there is no name, or the response has none that could be replaced: it is an
// error, or no JSON.
func newRenamer(name string, h *head, framing openai.Framing) *renamer {
	if name == "" || h.status >= 300 || h.encoded || framing == openai.NoFraming && !openai.IsJSON(h.get("content-type")) {
		return nil
	}
	return &renamer{names: openai.NewModelRenamer(name, framing)}
}

// rename returns the next piece of the response with the name in place. The result is valid until the next call, and may be p.
func (r *renamer) rename(p []byte) []byte {
	if r == nil || len(p) == 0 {
		return p
	}
	r.buf = r.names.Append(r.buf[:0], p)
	return r.buf
}
