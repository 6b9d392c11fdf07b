package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// DefaultTTL is how long a node that was killed stays registered.
const DefaultTTL = 5 * time.Second

const (
	leaveTimeout   = 2 * time.Second
	minCallTimeout = time.Second
)

// Registration is a document that stands in etcd for as long as its node lives.
type Registration struct {
	Client  *clientv3.Client
	Prefix  string // of all keys; with a slash at the end
	Key     string // without the prefix, such as servers/ams/ams-1
	Value   []byte
	TTL     time.Duration // whole seconds; 0 = DefaultTTL
	Logger  *slog.Logger
	Fence   Fence
	Records *Records // of the process that registers; nil = it has none

	// SavedLease is a file for the lease, so that a node that was killed need not wait until it has expired: the next run
	// under its name ends it. Only for a node that holds a lock by which it knows that its earlier run is dead. "" = none.
	SavedLease string

	// Same reports whether a document that stands in the place is of this process, which another node has registered on its behalf. The first
	// claim ends that registration. nil = none is.
	Same func(value []byte) bool
}

// ErrAbandon is the cause of the end of a context of [Lease.Run] that leaves the registration to expire with its lease: the process may live.
var ErrAbandon = errors.New("the registration is left to expire")

// Lease keeps a registration in etcd.
type Lease struct {
	r          Registration
	afterCrash bool
	fence      *leaseFence

	confirmedAt atomic.Pointer[time.Time]
	stored      atomic.Bool // etcd has value. Changed by the holder of writing

	// Owned by Register and Run, one after the other.
	earlier []savedLease // leases of ours, the newest last
	served  bool         // this process, or an earlier one that did not leave, may have served under this name: the file stays until we leave

	// writing guards the fields below: the sender of its one element holds it. It is held during the transaction that writes them
	// to etcd, which has a deadline, so that of two writers the later one wins there as well. It is no mutex, since a renewal must
	// not wait for longer than its own timeout.
	writing  chan struct{} // capacity 1
	value    []byte
	attached attached
	id       clientv3.LeaseID // 0 = not registered. Only Register and Run change it, so they read it without holding writing
	created  int64            // revision of the store at which the place was last ours; 0 = never
}

// NewLease returns a registration that Run puts into etcd, for a node that starts while etcd is away.
func NewLease(r Registration) *Lease {
	if r.TTL <= 0 {
		r.TTL = DefaultTTL
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Lease{r: r, value: r.Value, fence: newLeaseFence(r), writing: make(chan struct{}, 1)}
	if r.Fence.SetDeadline != nil {
		r.Fence.SetDeadline(time.Time{}) // the first confirmation may come too late to count
	}
	l.loadSavedLease()
	return l
}

// lock takes writing. Each holder releases it after callTimeout at the latest.
func (l *Lease) lock() { l.writing <- struct{}{} }

// lockWithin takes writing, unless ctx ends first.
func (l *Lease) lockWithin(ctx context.Context) error {
	select {
	case l.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lease) unlock() { <-l.writing }

// ConfirmedAt returns when the last call began by which etcd confirmed the registration; zero before the first.
func (l *Lease) ConfirmedAt() time.Time {
	if at := l.confirmedAt.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Stored reports whether etcd has confirmed the newest document since it was last registered.
func (l *Lease) Stored() bool { return l.stored.Load() }

// AfterCrash reports whether an earlier run under this name ended without leaving.
func (l *Lease) AfterCrash() bool { return l.afterCrash }

// Register puts the document into etcd, under a lease that Run must renew. If another node has the place, Register waits
// until that node's lease expires, and returns a *TakenError as soon as it is clear that it does not.
func Register(ctx context.Context, r Registration) (*Lease, error) {
	l := NewLease(r)
	if err := l.claim(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Assume sets the first deadline of the [Fence] without etcd, for a node that starts while etcd is away and knows of no other
// node that may have its place.
func (l *Lease) Assume() { l.fence.assume(time.Now()) }

// Run keeps the document in etcd until ctx ends, then removes it and returns nil. When the lease was lost, Run registers
// again. It returns a *TakenError if another living node has taken the place meanwhile.
func (l *Lease) Run(ctx context.Context) error {
	l.served = true
	defer l.leave(ctx)
	defer l.startHeartbeat()()
	tick := time.NewTicker(l.renewEvery())
	defer tick.Stop()
	failing := false
	for {
		asked := time.Now()
		err := l.renew(ctx, asked)
		if ctx.Err() != nil {
			return nil
		}
		var taken *TakenError
		if errors.As(err, &taken) {
			return err
		}
		if err != nil {
			l.fence.unanswered(asked, time.Now())
		}
		if err != nil && !failing {
			l.r.Logger.Warn("cannot renew the registration; retrying", "key", l.r.Key, "error", err)
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-l.recordLost():
		case <-ctx.Done():
			return nil
		}
	}
}

// recordLost returns a channel that has something in it when the process's record is lost.
func (l *Lease) recordLost() <-chan struct{} {
	if l.r.Records == nil {
		return nil
	}
	return l.r.Records.lost
}

// heartbeatsPerTTL is how often a process shows that it runs.
const heartbeatsPerTTL = 20

// startHeartbeat shows the fence that the process runs, until stop is called, which closes the fence.
func (l *Lease) startHeartbeat() (stop func()) {
	if l.r.Fence.SetDeadline == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(l.r.TTL / heartbeatsPerTTL)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.fence.heartbeat(time.Now())
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		l.fence.close()
	}
}

// Update replaces the document. If etcd does not take it now, Run puts it there later.
func (l *Lease) Update(ctx context.Context, value []byte) error {
	l.lock()
	defer l.unlock()
	if !bytes.Equal(l.value, value) {
		l.stored.Store(false)
	}
	l.value = value
	if l.id == 0 {
		return notRegistered(l.r.Key)
	}
	created := l.created
	err := l.ensureKeyLocked(ctx)
	if l.created != created && l.r.Records != nil {
		signal(l.r.Records.lost) // Run confirms the fence, which is suspended
	}
	return err
}

func notRegistered(key string) error {
	return fmt.Errorf("cannot update %s yet: it is not registered", key)
}

// renew keeps the lease alive and the document in place. It began at asked.
func (l *Lease) renew(ctx context.Context, asked time.Time) error {
	if l.id == 0 {
		return l.claim(ctx)
	}
	err := l.keepAlive(ctx)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, errKeyLost) || errors.Is(err, ErrRecordLost) {
		l.r.Logger.Warn("registration lost; registering again", "key", l.r.Key, "error", err)
		l.fence.suspect()
		l.clearID()
		return l.claim(ctx)
	}
	if err == nil {
		l.confirm(asked)
	}
	return err
}

// confirm takes etcd's word that the registration stands, in the answer to a call that began at asked.
func (l *Lease) confirm(asked time.Time) {
	l.confirmedAt.Store(&asked)
	l.fence.confirm(asked, time.Now())
}

// keepAlive renews the lease and checks the key, within one timeout: an etcd that takes longer counts as away, since the
// fence would lapse before each of its answers. The timeout includes the wait for an update under way, which may take as long
// when etcd goes away.
func (l *Lease) keepAlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	if _, err := l.r.Client.KeepAliveOnce(ctx, l.id); err != nil {
		return err
	}
	if err := l.lockWithin(ctx); err != nil {
		return err
	}
	defer l.unlock()
	return l.ensureKeyLocked(ctx)
}

// errKeyLost says that the key was deleted, and that another node has the place by now.
var errKeyLost = errors.New("the key was deleted, and the place is taken")

func (l *Lease) createdAt() int64 {
	l.lock()
	defer l.unlock()
	return l.created
}

func (l *Lease) clearID() {
	l.lock()
	defer l.unlock()
	l.id = 0
	l.stored.Store(false)
	if l.r.Records != nil {
		l.r.Records.setUnregistered()
	}
}

// ensureKeyLocked makes sure that the key is there, is ours, and has our value; an operator may have deleted or written it. It
// returns ErrRecordLost if the process's record does not stand as put last.
func (l *Lease) ensureKeyLocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	for {
		there, stands, err := l.checkLocked(ctx)
		switch {
		case err != nil:
			return err
		case stands:
			l.stored.Store(true)
			return nil
		case there == nil:
			l.r.Logger.Warn("registration deleted from etcd; putting it again", "key", l.r.Key)
			created, err := l.createLocked(ctx, l.id)
			if err == nil && !created {
				err = errKeyLost
			}
			return err
		case there.Lease != int64(l.id) && there.Lease != 0: // 0: an operator put our key
			return newTakenError(l.r, there)
		case there.Lease == int64(l.id) && bytes.Equal(there.Value, l.value) && l.attached.key != "":
			return l.ensureAttachedLocked(ctx)
		case there.Lease == int64(l.id) && bytes.Equal(there.Value, l.value): // the record was put meanwhile
			continue
		}
		unchanged := clientv3.Compare(clientv3.ModRevision(l.fullKey()), "=", there.ModRevision)
		if _, err := l.r.Client.Txn(ctx).If(unchanged).Then(l.put(l.id)).Commit(); err != nil {
			return err
		}
		// The key may have changed before it was put: look again.
	}
}

// checkLocked reports whether the registration, what is attached to it and the record stand, or else what is in the key; nil = nothing.
func (l *Lease) checkLocked(ctx context.Context) (there *mvccpb.KeyValue, stands bool, err error) {
	key := l.fullKey()
	conditions := []clientv3.Cmp{
		clientv3.Compare(clientv3.LeaseValue(key), "=", l.id), clientv3.Compare(clientv3.Value(key), "=", string(l.value)),
	}
	conditions = append(conditions, l.attachedStands()...)
	if l.r.Records != nil {
		return l.r.Records.checkRegistration(ctx, conditions, l)
	}
	answer, err := l.r.Client.Txn(ctx).If(conditions...).Else(clientv3.OpGet(key)).Commit()
	if err != nil || answer.Succeeded {
		return nil, true, err
	}
	there, _ = parseRead(answer)
	return there, false, nil
}

// createLocked puts the key if the place is free, and reports whether it was. The process's record is put with it, owning
// nothing: while the key was gone, another process may have taken over what it owned.
func (l *Lease) createLocked(ctx context.Context, id clientv3.LeaseID) (bool, error) {
	free := clientv3.Compare(clientv3.CreateRevision(l.fullKey()), "=", 0)
	puts := []clientv3.Op{l.put(id)}
	var registering recordPut
	if l.r.Records != nil {
		l.fence.suspect()
		var err error
		if registering, err = l.r.Records.newRegistration(); err != nil {
			return false, err
		}
		puts = append(puts, registering.puts...)
	}
	answer, err := l.r.Client.Txn(ctx).If(free).Then(puts...).Commit()
	if err != nil {
		return false, err
	}
	if answer.Succeeded {
		l.created = answer.Header.Revision
		l.stored.Store(l.attached.key == "")
		if l.r.Records != nil {
			l.r.Records.setRegistered(id, registering, answer.Header.Revision)
		}
	}
	return answer.Succeeded, nil
}

func (l *Lease) put(id clientv3.LeaseID) clientv3.Op {
	return clientv3.OpPut(l.fullKey(), string(l.value), clientv3.WithLease(id))
}

// leave removes the lease, and the key with it, so that a successor need not wait, unless that is left to the lease. It has a deadline of its own, since ctx
// has ended.
func (l *Lease) leave(ctx context.Context) {
	id := l.id
	if id == 0 || errors.Is(context.Cause(ctx), ErrAbandon) {
		return
	}
	l.clearID()
	if l.r.Records != nil {
		l.r.Records.leave(ctx, id)
	}
	if l.revoke(ctx, id) {
		l.removeSavedLease()
	}
}

func (l *Lease) revoke(ctx context.Context, id clientv3.LeaseID) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if _, err := l.r.Client.Revoke(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		l.r.Logger.Warn("cannot remove the registration; it expires with its lease",
			"key", l.r.Key, "ttl", l.r.TTL, "error", err)
		return false
	}
	return true
}

func (l *Lease) fullKey() string { return l.r.Prefix + l.r.Key }

// renewEvery leaves room for renewals that fail, and for siblings to be asked before the deadline of the fence.
func (l *Lease) renewEvery() time.Duration { return l.r.TTL / 5 }

// callTimeout bounds each call.
func (l *Lease) callTimeout() time.Duration { return max(l.r.TTL/3, minCallTimeout) }
