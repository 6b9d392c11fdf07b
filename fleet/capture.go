package fleet

import "time"

// MaxCapture is the longest time for which a document may have requests captured.
const MaxCapture = 24 * time.Hour

// Capture has entries write the requests and responses of one account, with their content, to a sink of its own, for a while. One that comes
// from a table is shared: do not modify it.
type Capture struct {
	Name string `json:"-"`
	// Account whose requests are captured.
	Account string `json:"account" is:"name" need:"yes"`
	// Time at which it ends by itself, at most 24 h ahead.
	Until time.Time `json:"until" need:"yes"`
	// Where the content goes: file:/PATH of a file on the entry's machine, with the mode 0600, or an http or https URL that gets JSON lines by POST.
	Sink string `json:"sink" is:"capture_sink" need:"yes"`
	// Longest part of a request's body that is kept, and of a response's.
	MaxBytes Bytes `json:"max_bytes" range:"1KiB,16MiB"`
}

// EndedAt reports whether the time of c is over.
func (c *Capture) EndedAt(now time.Time) bool { return !now.Before(c.Until) }
