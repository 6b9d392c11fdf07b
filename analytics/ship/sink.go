package ship

import "context"

// Sink takes batches of events. One goroutine calls it.
type Sink interface {
	// Send delivers a batch as a whole, and returns nil once the receiver is responsible for its events. An error made by [Rejected] says
	// that this batch will never be taken; after any other error the same batch comes again. Send ends when ctx is done, and retains
	// neither the batch nor its bytes.
	Send(ctx context.Context, b *Batch) error
	Close() error
}
