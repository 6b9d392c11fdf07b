package jwt

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"colonnade/accounts"
	"colonnade/fleet"
)

// maxRemembered bounds the verified tokens that are remembered, each with less than 1 KiB.
const maxRemembered = 16384

// verified is a token that was found valid, and all that this depended on.
type verified struct {
	caller  accounts.Caller
	expires time.Time // from then on it is not valid, with the time for clocks that differ
	issuer  *fleet.Issuer
	keys    *keySet
	account *fleet.Account // that caller.Account was made of
}

// remembered holds verified tokens by their hashes.
type remembered struct {
	mu     sync.Mutex // guards the fields below
	byHash map[[sha256.Size]byte]*list.Element
	used   list.List // of entry, the most recently used first
}

type entry struct {
	hash [sha256.Size]byte
	verified
}

func newRemembered() *remembered { return &remembered{byHash: map[[sha256.Size]byte]*list.Element{}} }

func (r *remembered) find(hash [sha256.Size]byte) (verified, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.byHash[hash]
	if !ok {
		return verified{}, false
	}
	r.used.MoveToFront(at)
	return at.Value.(*entry).verified, true
}

func (r *remembered) add(hash [sha256.Size]byte, v verified) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.byHash[hash]; ok {
		at.Value.(*entry).verified = v
		return
	}
	r.byHash[hash] = r.used.PushFront(&entry{hash, v})
	if r.used.Len() > maxRemembered {
		oldest := r.used.Back()
		delete(r.byHash, r.used.Remove(oldest).(*entry).hash)
	}
}
