package admission

import "colonnade/permits"

// What callers of [Pool.Acquire] speak of; see package permits.
type (
	Request  = permits.Request
	Progress = permits.Progress
	Refusal  = permits.Refusal
	Reason   = permits.Reason
	Band     = permits.Band
	Used     = permits.Used
)

// The bands of requests, and the reasons that callers tell apart.
const (
	Interactive = permits.Interactive
	Standard    = permits.Standard
	Batch       = permits.Batch

	Busy         = permits.Busy
	QueueTimeout = permits.QueueTimeout
	NoEndpoint   = permits.NoEndpoint
	Draining     = permits.Draining
)
