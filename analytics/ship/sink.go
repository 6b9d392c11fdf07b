package ship

import "context"

// Sink takes batches of events. One goroutine calls it.
type Sink interface {
	// Check connects to the receiver, and returns why it would take no events, with what to do, as far as that is known without an event.
	Check(ctx context.Context) error
	// Send delivers a batch as a whole, and returns nil once the receiver is responsible for its events. An error made by [Rejected] says
	// that this batch will never be taken; after any other error the same batch comes again. Send ends when ctx is done, and retains
	// neither the batch nor its bytes.
	Send(ctx context.Context, b *Batch) error
	// Sync makes the events of all batches so far survive a loss of power of this machine. Once it has failed, some may be lost, and it
	// fails for good: the next process sends them again. Most sinks have a [Receiver] for that.
	Sync() error
	Close() error
}

// Receiver is embedded in sinks whose receiver is elsewhere, so that there is nothing to sync here, and perhaps nothing to ask it without an
// event.
type Receiver struct{}

// Check implements [Sink].
func (Receiver) Check(context.Context) error { return nil }

// Sync implements [Sink].
func (Receiver) Sync() error { return nil }
