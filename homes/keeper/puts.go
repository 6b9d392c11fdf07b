package keeper

import (
	"context"
	"errors"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/homes"
)

const (
	countInterval = 200 * time.Millisecond // between two puts that only lower the counts of held requests
	countPoll     = 50 * time.Millisecond  // between two looks at the counts, while requests are held
	idleInterval  = time.Second            // between two looks at the limits that were found
	minBackoff    = 50 * time.Millisecond  // after a put that failed
	maxBackoff    = time.Second
)

// runPuts keeps the record in the store.
func (k *Keeper) runPuts(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // when the last put ended
	backoff, failing := minBackoff, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-timer.C:
		}
		next, required, ok := k.next()
		wait := idleInterval
		switch {
		case ok && !required && time.Since(last) < countInterval:
			wait = countInterval - time.Since(last)
		case ok && k.put(ctx, next, failing):
			last, backoff, failing, wait = time.Now(), minBackoff, false, countInterval
		case ok:
			last, wait, failing, backoff = time.Now(), backoff, true, min(2*backoff, maxBackoff)
		case len(next.Held) > 0:
			wait = countPoll
		}
		timer.Reset(wait)
	}
}

// next returns the next put. Its counts are taken after the grants are in force.
func (k *Keeper) next() (next registeredPut, required, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.ownership.Resume(now) {
		k.grantLocked()
	}
	next.registered = k.registered
	next.Put, required, ok = k.ownership.Next(k.config.Held(), k.config.Limits())
	return next, required, ok
}

// registeredPut is a put, with the revision of the registration that it belongs to.
type registeredPut struct {
	homes.Put
	registered int64
}

// put puts the record, and reports whether it stands. failing means that the last one did not.
func (k *Keeper) put(ctx context.Context, next registeredPut, failing bool) bool {
	revision, err := k.config.Put(ctx, next.registered, next.Owns, next.Held)
	lost := errors.Is(err, etcd.ErrRecordLost)
	k.settlePut(next.Put, revision, err)
	if lost {
		k.config.Forget()
	}
	if err != nil && !failing && ctx.Err() == nil && !errors.Is(err, etcd.ErrNotRegistered) {
		k.config.Logger.Warn("cannot put the record of this server; retrying", "error", err)
	}
	return err == nil
}

func (k *Keeper) settlePut(next homes.Put, revision int64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.ownership.PutStands(next, revision, time.Now())
		k.grantLocked()
	case errors.Is(err, etcd.ErrRecordLost):
		k.ownership.Lose()
		k.grantLocked()
	case !errors.Is(err, etcd.ErrNotRegistered):
		k.ownership.PutUnanswered()
	}
}
