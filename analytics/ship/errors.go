package ship

import "time"

// RejectedError says that a sink will never take a batch as it is. Without Events and Lost, none of its events was taken, and it is sent
// again in halves.
type RejectedError struct {
	Err    error
	Events []int // indexes of the events that were not taken, in ascending order; all others were
	Lost   int   // number of events that were not taken, if the sink does not say which; all others were
}

// Rejected marks an error of a batch that the sink will never take, such as one with an event that violates a constraint.
func Rejected(err error) error { return &RejectedError{Err: err} }

func (e *RejectedError) Error() string { return e.Err.Error() }
func (e *RejectedError) Unwrap() error { return e.Err }

// RetryError says when a sink wants a batch again.
type RetryError struct {
	After time.Duration
	Err   error
}

// RetryAfter marks an error of a sink that wants no batch before some time has passed.
func RetryAfter(err error, after time.Duration) error { return &RetryError{after, err} }

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }
