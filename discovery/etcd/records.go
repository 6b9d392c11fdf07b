package etcd

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
	"colonnade/homes"
)

// RecordsConfig names the process whose record is kept, and the colo whose records are followed.
type RecordsConfig struct {
	Client *clientv3.Client
	Prefix string // of all keys; with a slash at the end
	Colo   string
	Self   homes.Process
	// Address returns the address of the peer listener, host:port.
	Address func() string
	// Held returns how many requests the process has on engines, by URL. It is called right before each transaction that
	// registers the process, after the fence's deadline was ended; no permit may be granted from then on until OnRegistered is
	// called. It must not call the Lease or the Records.
	Held func() map[string]int
	// Observe is called with each change of the records of the colo, own ones too, in the order of the store, by the goroutine of
	// Run.
	Observe func(homes.Change)
	// OnRegistered is called when the process is registered, for the first time or again, before the fence is confirmed: its
	// record owns nothing as of that revision. It must not call the Lease or the Records.
	OnRegistered func(revision int64)
	// OnRestored is called when the store was restored to an older revision, or may have been. The call that has noticed this calls
	// OnRestored before it calls OnRegistered or Observe, or returns. It must not call the Lease or the Records. nil = nothing is called.
	OnRestored func()
	// Seen is a revision of the store that an earlier process of the node saw; 0 = none is known.
	Seen   int64
	Logger *slog.Logger
	// WatchTimeout is how long the watch may be silent. A third of it bounds each call. 0 = 5 s.
	WatchTimeout time.Duration
}

const (
	recordsKind           = string(fleet.KindRecord) + "/"
	heldSuffix            = "/held"
	defaultRecordsTimeout = 5 * time.Second
	maxRecord             = 1 << 20 // bytes of both keys; etcd refuses transactions of more than 1.5 MiB
)

// Errors of [Records.Put].
var (
	// ErrNotRegistered says that the process is not registered, or has registered anew meanwhile, so its record was not put.
	ErrNotRegistered = errors.New("the process is not registered")
	// ErrRecordLost says that the own record is not one that this process put: it was deleted by hand, or the store was restored.
	ErrRecordLost = errors.New("the own record is not as it was put last")
)

// Records follows the records of a colo's server processes, and writes that of one of them. Its methods may be called at any
// time, also while Run runs.
type Records struct {
	config  RecordsConfig
	relist  chan struct{} // to Run: list the records now; capacity 1
	lost    chan struct{} // to Lease.Run: the own record is lost; capacity 1
	putting sync.Mutex    // held by Put, so that there is one at a time

	mu         sync.Mutex // guards the fields below
	newest     int64      // newest revision of the store that was seen
	restored   bool       // the next list is of a store that was restored, or may have been
	lease      clientv3.LeaseID
	registered int64          // revision of the last registration; 0 = not registered
	forgotten  bool           // the own record counts as lost
	number     uint64         // of the last put of owns
	standing   storedRecord   // the own record as it is known to stand in the store
	unresolved []storedRecord // later puts that were not answered; one of them may stand, or may yet take place

	registering storedRecord // the record of a registration that was not answered
}

// storedRecord is a record as it stands under its two keys; nil = there is no such key.
type storedRecord struct {
	owns, held                 []byte
	ownsRevision, heldRevision int64  // ModRevision of the keys; 0 = there is no such key, or it is yet to be put
	put                        uint64 // number in owns, of an own record
}

// NewRecords returns the records of a colo, to be run by Run.
func NewRecords(c RecordsConfig) *Records {
	if c.WatchTimeout <= 0 {
		c.WatchTimeout = defaultRecordsTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Records{config: c, newest: c.Seen, relist: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
}

// Forget makes the own record count as lost: the process registers again.
func (r *Records) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten = true
	signal(r.lost)
}

// signal wakes the receiver of a channel with capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// callTimeout bounds each call.
func (r *Records) callTimeout() time.Duration { return r.config.WatchTimeout / 3 }

// relativePrefix returns the prefix of the keys of all records of the colo, without RecordsConfig.Prefix.
func (r *Records) relativePrefix() string { return recordsKind + r.config.Colo + "/" }

// key returns the key of what a process owns; that of what it holds has the heldSuffix.
func (r *Records) key(p homes.Process) string {
	if p.Boot == "" { // put by hand
		return r.config.Prefix + r.relativePrefix() + p.Node
	}
	return r.config.Prefix + r.relativePrefix() + p.String()
}

// serverKey returns the key of a node's registration.
func (r *Records) serverKey(node string) string {
	return r.config.Prefix + fleet.KindServer.Key(r.config.Colo, node)
}

// parseKey returns the process of a record's key, and whether it is the key of what it holds. name is the key without the prefix of all
// records of the colo.
func parseKey(name string) (p homes.Process, held bool) {
	name, held = strings.CutSuffix(name, heldSuffix)
	if slash := strings.LastIndexByte(name, '/'); slash >= 0 && slash < len(name)-1 {
		return homes.Process{Node: name[:slash], Boot: name[slash+1:]}, held
	}
	return homes.Process{Node: name}, held
}

// set takes the value of one of the keys; nil = it was deleted.
func (s *storedRecord) set(held bool, value []byte, revision int64) {
	if held {
		s.held, s.heldRevision = value, revision
	} else {
		s.owns, s.ownsRevision = value, revision
	}
}

func (s *storedRecord) revision() int64 { return max(s.ownsRevision, s.heldRevision) }

func (s *storedRecord) isAbsent() bool { return s.owns == nil && s.held == nil }

func (s *storedRecord) sameValues(other *storedRecord) bool {
	return bytes.Equal(s.owns, other.owns) && bytes.Equal(s.held, other.held)
}

func (s *storedRecord) parse(p homes.Process) homes.Record {
	record := homes.ParseRecord(p, s.owns, s.held)
	record.Revision = s.revision()
	return record
}

// readOps returns the operations that read a process's registration and its record; parseRead parses their answer.
func (r *Records) readOps(p homes.Process) []clientv3.Op {
	key := r.key(p)
	return []clientv3.Op{clientv3.OpGet(r.serverKey(p.Node)), clientv3.OpGet(key), clientv3.OpGet(key + heldSuffix)}
}

// parseRead returns the registration, nil if there is none, and the record in the answer to readOps.
func parseRead(answer *clientv3.TxnResponse) (server *mvccpb.KeyValue, record storedRecord) {
	for i, response := range answer.Responses {
		for _, kv := range response.GetResponseRange().Kvs {
			if i == 0 {
				server = kv
			} else {
				record.set(i == 2, notNil(kv.Value), kv.ModRevision)
			}
		}
	}
	return server, record
}

// unchanged returns conditions that hold while a record stands as it was read or put.
func (r *Records) unchanged(p homes.Process, s *storedRecord) []clientv3.Cmp {
	key := r.key(p)
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", s.ownsRevision),
		clientv3.Compare(clientv3.ModRevision(key+heldSuffix), "=", s.heldRevision),
	}
}

// sawRevision notes the store's revision in an answer. before is the newest revision that was known when the call began: if the
// answer's is lower, the store was restored.
func (r *Records) sawRevision(before, revision int64) {
	if r.advance(before, revision) {
		r.noteRestored()
	}
}

func (r *Records) advance(before, revision int64) (restored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if revision >= before {
		r.newest = max(r.newest, revision)
		return false
	}
	r.newest = revision
	return true
}

// noteRestored notes that the store was restored, or may have been.
func (r *Records) noteRestored() {
	r.mu.Lock()
	r.restored = true
	r.mu.Unlock()
	signal(r.relist)
	if r.config.OnRestored != nil {
		r.config.OnRestored()
	}
}
