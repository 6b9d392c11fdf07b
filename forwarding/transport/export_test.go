package transport

// For external tests.
const (
	MaxInterim     = maxInterim
	MaxInterimHead = maxInterimHead
)

var ErrMalformed = errMalformed

// AppendHead appends what would be sent of r before its body.
func (r *Request) AppendHead(b []byte) ([]byte, error) { return r.appendHead(b) }

// HasQuiet reports whether an idle connection to the target can be used again.
func (t *Transport) HasQuiet(to Target) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.idle[to] {
		if c.Quiet() {
			return true
		}
	}
	return false
}
