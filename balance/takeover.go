package balance

import (
	"cmp"
	"slices"
	"time"
)

// Known is what is known of the engine of one endpoint, but for its load: what servers tell each other as JSON, so that the next one that
// chooses need not begin from nothing.
type Known struct {
	FirstBytes []FirstByteKnown `json:"first_bytes,omitempty"`
	Adapters   []string         `json:"loaded,omitempty"` // in its memory, the one that was used last first
	Blocks     []byte           `json:"blocks,omitempty"` // of prompts that it is likely to have in its cache; see [EncodeUses]
}

// FirstByteKnown is how soon answers begin to prompts of one class of sizes.
type FirstByteKnown struct {
	Class     int     `json:"class"`
	Nanos     float64 `json:"ns"`
	AgeMillis int64   `json:"age_ms"` // since it was measured
}

// Use says that an endpoint got a block of a prompt.
type Use struct {
	Hash  uint64  // of the block and all before it
	Depth int     // blocks of the prompt before it
	Used  Instant // when it was sent there last
}

const (
	maxKnownAge     = 24 * time.Hour // as [Config.MaxAge] is at most
	maxKnownLatency = time.Hour
	maxAdapterName  = 256 // bytes
	usesAtOnce      = 256 // that are looked at until the caller may do other things
)

// Known returns what is known of an endpoint, but for the blocks in its cache.
func (b *Balancer) Known(now Instant, at int) (k Known) {
	l := b.endpoints[at].learned
	for class := range b.latencies {
		if known := &b.latencies[class][at]; known.mean > 0 {
			k.FirstBytes = append(k.FirstBytes, FirstByteKnown{Class: class, Nanos: known.mean, AgeMillis: max(0, now-known.at).Milliseconds()})
		}
	}
	var pending []*place
	for _, p := range l.adapters.places {
		if p.pending > 0 {
			pending = append(pending, p)
		}
	}
	slices.SortFunc(pending, func(p, q *place) int { return cmp.Compare(q.used, p.used) })
	for _, p := range pending {
		k.Adapters = append(k.Adapters, p.adapter.name)
	}
	for p := l.adapters.idle.newest; p != nil; p = p.older {
		k.Adapters = append(k.Adapters, p.adapter.name)
	}
	return k
}

// Adopt takes over what another balancer knew of an endpoint, age ago, where this one knows nothing; see AdoptUses for the blocks. Values
// that cannot be true are left out.
func (b *Balancer) Adopt(now Instant, at int, k *Known, age time.Duration) {
	l := b.endpoints[at].learned
	for _, f := range k.FirstBytes {
		if f.Class < 0 || f.Class >= latencyClasses || f.AgeMillis < 0 || f.AgeMillis > maxKnownAge.Milliseconds() {
			continue
		}
		if b.latencies[f.Class][at].mean == 0 && f.Nanos >= 1 && f.Nanos <= float64(maxKnownLatency) {
			b.setLatency(now, at, f.Class, newLatency(f.Nanos, now-age-time.Duration(f.AgeMillis)*time.Millisecond))
		}
	}
	names := slices.DeleteFunc(slices.Clone(k.Adapters[:min(len(k.Adapters), maxLoaded)]), func(name string) bool {
		return name == "" || len(name) > maxAdapterName || l.adapters.places[name] != nil && l.adapters.places[name].loaded
	})
	slices.Reverse(names)
	b.UseAdapters(at, names)
}

// RecentUses appends the next few of an endpoint's uses, the newest first, to those that were returned before. It appends none at the end. So
// the caller can do other things meanwhile: uses that have changed since are left out.
func (b *Balancer) RecentUses(at int, before []Use) []Use {
	l := b.endpoints[at].learned
	i := l.cached.newest
	if len(before) > 0 {
		if i = b.index.lastOf(l, before); i == none {
			return before
		}
		i = b.index.uses[i].older
	}
	for n := 0; i != none && n < usesAtOnce; n++ {
		u := &b.index.uses[i]
		before = append(before, Use{Hash: u.hash, Depth: int(u.depth), Used: Instant(u.used)})
		i = u.older
	}
	return before
}

// lastOf returns the last of an endpoint's uses that was not used again since, of the latest few; none if there is none.
func (x *index) lastOf(owner *learned, uses []Use) int32 {
	for _, u := range slices.Backward(uses[max(0, len(uses)-usesAtOnce):]) {
		if i := x.find(u.Hash, owner); i != none && x.uses[i].used == int64(u.Used) {
			return i
		}
	}
	return none
}

// AdoptUses takes over the next few uses of an endpoint from another balancer, the newest first, of which those before from were taken over
// already. It returns the next value of from, which is the number of uses at the end, so that the caller can do other things meanwhile. A
// newer use of the same block is kept.
func (b *Balancer) AdoptUses(now Instant, at int, uses []Use, from int) (next int) {
	l, most := b.endpoints[at].learned, b.usesOfEach()
	if !b.config.usesIndex() {
		return len(uses)
	}
	defer b.trimOthers(usesAtOnce)
	newer := b.index.lastOf(l, uses[:from])
	next = min(len(uses), from+usesAtOnce)
	for _, u := range uses[from:next] {
		if b.config.MaxAge > 0 && now-u.Used > b.config.MaxAge {
			return len(uses)
		}
		newer = b.index.adopt(l, u, newer)
		if b.index.trim(&l.cached, most, step); b.index.find(u.Hash, l) == none {
			return len(uses) // there is no room for it, and none for what is older
		}
	}
	return next
}

// adopt adds a use of an endpoint behind those that are newer. One of these is given, from which on it searches; it returns the last of them.
func (x *index) adopt(owner *learned, u Use, newer int32) int32 {
	older := owner.cached.newest
	if newer != none {
		older = x.uses[newer].older
	}
	for older != none && x.uses[older].used >= int64(u.Used) {
		newer, older = older, x.uses[older].older
	}
	i := x.find(u.Hash, owner)
	switch {
	case i == none:
		i = x.add(owner, u.Hash, u.Depth)
	case x.uses[i].used >= int64(u.Used):
		return newer
	default:
		x.unlink(i)
	}
	x.uses[i].used = int64(u.Used)
	x.linkBehind(i, newer)
	return i
}
