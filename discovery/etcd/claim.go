package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/internal/ctxtime"
)

// TakenError says that another node has the place that a node wants.
type TakenError struct {
	Key    string // wanted, without the prefix
	Holder string // the key that stands there, without the prefix
	ByHand bool   // it has no lease, so it was put by hand and never expires
	Value  []byte // of the key that stands there
	reason string
}

// Error names the other node and says what to do.
func (e *TakenError) Error() string { return fmt.Sprintf("cannot register %s: %s", e.Key, e.reason) }

func newTakenError(r Registration, holder *mvccpb.KeyValue) *TakenError {
	key := strings.TrimPrefix(string(holder.Key), r.Prefix)
	e := &TakenError{Key: key, Holder: key, ByHand: holder.Lease == 0, Value: holder.Value}
	var node struct{ Address, Boot string }
	_ = json.Unmarshal(holder.Value, &node) // fields that cannot be read are not shown
	who := fmt.Sprintf("%s (address %q", e.Holder, node.Address)
	if node.Boot != "" { // entries have none
		who += fmt.Sprintf(", boot %q", node.Boot)
	}
	who += ")"
	switch {
	case e.ByHand:
		e.reason = fmt.Sprintf("the key %s has no lease, so it was put by hand and never expires; delete it with: etcdctl del %s",
			holder.Key, holder.Key)
	default:
		e.reason = fmt.Sprintf("another running node has this name: %s; stop it, or start this one with another -node", who)
	}
	return e
}

// claim waits for the place to be free, takes a lease, and puts the key.
func (l *Lease) claim(ctx context.Context) error {
	if err := l.revokeEarlier(ctx); err != nil {
		return err
	}
	// A node that came after us saw our lease expire, and lives: it keeps the place.
	wait := contention{startRevision: l.createdAt()}
	for {
		there, err := l.holder(ctx)
		if err != nil {
			return fmt.Errorf("cannot look for other nodes in the place of %s: %w", l.r.Key, err)
		}
		if len(there.Kvs) == 0 {
			if done, err := l.tryCreate(ctx); done || err != nil {
				return err
			}
		} else if l.isSame(there.Kvs[0]) {
			if !l.revoke(ctx, clientv3.LeaseID(there.Kvs[0].Lease)) {
				return fmt.Errorf("cannot end the registration of %s that another node keeps", l.r.Key)
			}
			continue
		} else if err := wait.observe(ctx, l, there); err != nil {
			return err
		}
		ctxtime.Sleep(ctx, min(l.r.TTL/20, 200*time.Millisecond))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// isSame reports whether what stands in our place is this process, registered by another node. A process that had the place itself has lost it to
// that node, and does not take it back.
func (l *Lease) isSame(there *mvccpb.KeyValue) bool {
	return l.r.Same != nil && there.Lease != 0 && l.createdAt() == 0 && l.r.Same(there.Value)
}

// holder returns what stands in our place.
func (l *Lease) holder(ctx context.Context) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	return l.r.Client.Get(ctx, l.fullKey())
}

// tryCreate takes a lease and puts the key; false means that another node was quicker.
func (l *Lease) tryCreate(ctx context.Context) (bool, error) {
	asked := time.Now()
	granted, err := l.grant(ctx)
	if err != nil {
		return false, fmt.Errorf("cannot get a lease for %s: %w", l.r.Key, err)
	}
	l.saveLease(granted)
	created, err := l.create(ctx, granted)
	if err != nil {
		l.fence.unanswered(asked, time.Now()) // not after the next call, which may take longer than the rest of the deadline
	}
	if err != nil || !created {
		ended := l.revoke(ctx, granted) // also after an error: the put may have succeeded
		if ended && !l.served {
			l.removeSavedLease()
		}
	}
	if err != nil {
		return false, fmt.Errorf("cannot put %s: %w", l.r.Key, err)
	}
	if created {
		l.confirm(asked)
		l.r.Logger.Info("registered", "key", l.r.Key, "ttl", l.r.TTL)
		return true, l.ensureAttached(ctx)
	}
	return false, nil
}

func (l *Lease) grant(ctx context.Context) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	seconds := int64((l.r.TTL + time.Second - 1) / time.Second)
	answer, err := l.r.Client.Grant(ctx, seconds)
	if err != nil {
		return 0, err
	}
	return answer.ID, nil
}

func (l *Lease) create(ctx context.Context, id clientv3.LeaseID) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	l.lock()
	defer l.unlock()
	created, err := l.createLocked(ctx, id)
	if created {
		l.id = id
	}
	return created, err
}

// contention observes whether the node that has our place lives. A node that was killed lets its lease expire. A living one
// renews it: two renewals prove that (a new leader of etcd renews all leases once), and so does a key that is still there
// after one and a half times its TTL and a second.
type contention struct {
	startRevision int64 // at which we first looked, or last had the place; 0 = neither yet
	lease         int64 // of the holder
	since         time.Time
	secondsLeft   int64     // of its lease, rounded down, when it was seen first, or to be renewed
	seen          time.Time // when that was answered
	renewals      int
}

// observe returns a *TakenError if the holder certainly lives.
func (c *contention) observe(ctx context.Context, l *Lease, there *clientv3.GetResponse) error {
	holder := there.Kvs[0]
	l.fence.challenge(time.Now())
	if c.startRevision == 0 {
		c.startRevision = there.Header.Revision
	}
	if holder.Lease == 0 || holder.CreateRevision > c.startRevision { // it never expires, or was quicker than we
		return newTakenError(l.r, holder)
	}
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	asked := time.Now()
	answer, err := l.r.Client.TimeToLive(ctx, clientv3.LeaseID(holder.Lease))
	if err != nil {
		return fmt.Errorf("cannot see how long the lease of %s lasts: %w", holder.Key, err)
	}
	if holder.Lease != c.lease {
		now := time.Now()
		*c = contention{startRevision: c.startRevision, lease: holder.Lease, since: now, secondsLeft: answer.TTL, seen: now}
		l.r.Logger.Info("waiting for the lease of an earlier process", "key", string(holder.Key), "seconds", answer.TTL)
	}
	if c.holderLives(answer, asked) {
		return newTakenError(l.r, holder)
	}
	return nil
}

// holderLives takes the answer to a call that began at asked. A lease that is renewed each second always has as many whole
// seconds left; one that is not renewed loses a second each second.
func (c *contention) holderLives(answer *clientv3.LeaseTimeToLiveResponse, asked time.Time) bool {
	if answer.GrantedTTL == 0 { // it expired after the key was read
		return false
	}
	if notRenewed := float64(c.secondsLeft+1) - asked.Sub(c.seen).Seconds(); float64(answer.TTL) > notRenewed {
		c.renewals++
		c.secondsLeft, c.seen = answer.TTL, time.Now()
	}
	granted := time.Duration(answer.GrantedTTL) * time.Second
	return c.renewals >= 2 || time.Since(c.since) > granted*3/2+time.Second
}
