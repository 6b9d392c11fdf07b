package etcd

import (
	"context"
	"errors"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/homes"
)

// RecordsConfig says whose record is kept, and of which colo the records are followed.
type RecordsConfig struct {
	Client *clientv3.Client
	Prefix string // of all keys; with a slash at the end
	Colo   string
	Self   homes.Process
	// Address returns the address of the peer listener, host:port.
	Address func() string
	// Held returns how many requests the process has on engines, by URL. It is called after the fence's deadline was ended and
	// must not block.
	Held func() map[string]int
	// Observe is called with each change of the records of the colo, own ones too, in the order of the store, by the goroutine of
	// Run.
	Observe func(homes.Change)
	// OnRegistered is called when the process is registered, for the first time or again, before the fence is confirmed: its
	// record owns nothing as of that revision. It must not block, nor call the Lease or the Records.
	OnRegistered func(revision int64)
	Logger       *slog.Logger
	WatchTimeout time.Duration // how long the watch may be silent; 0 = 5 s
}

// Errors of [Records.Put].
var (
	// ErrNotRegistered says that the process is not registered, or registered anew meanwhile, so its record was not put.
	ErrNotRegistered = errors.New("the process is not registered")
	// ErrRecordLost says that the own record is not as it was put last: it was deleted by hand, or the store was restored.
	ErrRecordLost = errors.New("the own record is not as it was put last")
)

// Records follows the records of a colo's server processes, and writes that of one of them.
type Records struct {
	config RecordsConfig
}

// NewRecords returns the records of a colo, to be run by Run.
func NewRecords(c RecordsConfig) *Records { return &Records{config: c} }

// Run follows the records until ctx ends; then it returns nil. It must be called once.
func (r *Records) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Put puts the own record: what the process owns, each with its limit, and what it holds on other engines. It returns the
// revision of the store at which the record stands. After an error other than ErrNotRegistered and ErrRecordLost it is not
// known whether the put takes place; the next Put resolves that before it puts.
func (r *Records) Put(ctx context.Context, owns, held map[string]int) (revision int64, err error) {
	return 0, ErrNotRegistered
}

// Replace puts next in place of a record, or deletes it if next is nil, provided that the record is unchanged and its process
// is still not registered. It reports whether it did.
func (r *Records) Replace(ctx context.Context, old homes.Record, next *homes.Record) (done bool, err error) {
	return false, nil
}
