package transport

import "time"

// For external tests.
const (
	MaxInterim     = maxInterim
	MaxInterimHead = maxInterimHead
)

var ErrMalformed = errMalformed

// ExpireLinks ends links as Run does at a time.
func (t *Transport) ExpireLinks(at time.Time) { t.links.expire(at) }

// AppendHead appends what would be sent of r before its body.
func (r *Request) AppendHead(b []byte) ([]byte, error) { return r.appendHead(b) }

// HasUsable reports whether an idle connection to the target can be used again.
func (t *Transport) HasUsable(to Target) bool {
	t.idle.mu.Lock()
	defer t.idle.mu.Unlock()
	list := t.idle.lists[to]
	if list == nil {
		return false
	}
	for _, c := range list.conns {
		if c.checkTurn(0) == nil {
			return true
		}
	}
	return false
}
