package journal

// Cursor is how far a [Follower] has come with the events of a node, for each kind of segments. The zero cursor stands before all events.
type Cursor struct {
	Billing  Position `json:"billing"`
	Requests Position `json:"requests"`
	Refusals Position `json:"refusals"`
}

// Position is how far segments of one kind were read.
type Position struct {
	Segment int    `json:"segment"`           // number; 0 = none was read
	Offset  int64  `json:"offset"`            // in the segment, behind the last line that was read
	Finals  int    `json:"finals"`            // final events before Offset
	Missed  uint64 `json:"missed,omitempty"`  // final events in segments that were dropped before they were read
	Corrupt uint64 `json:"corrupt,omitempty"` // lines that were skipped since they are incomplete or differ from what was written
}

// positions returns the positions by kind, in the order of streams.
func (c *Cursor) positions() [3]*Position {
	return [...]*Position{&c.Billing, &c.Requests, &c.Refusals}
}

// streamPrefixes are the prefixes of the names of segments with final events.
func streamPrefixes() [3]string { return [...]string{billingPrefix, requestsPrefix, refusalsPrefix} }

// Missed returns the number of final events that were dropped before they were read.
func (c Cursor) Missed() uint64 { return c.Billing.Missed + c.Requests.Missed + c.Refusals.Missed }

// Corrupt returns the number of lines that were skipped.
func (c Cursor) Corrupt() uint64 { return c.Billing.Corrupt + c.Requests.Corrupt + c.Refusals.Corrupt }
