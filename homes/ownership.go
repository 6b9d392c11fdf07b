package homes

import (
	"maps"
	"slices"
	"time"
)

// Ownership decides on which engines one server process may grant, from the records of all processes of its colo. See the package's
// documentation for the rules. It has no clock and does no I/O. It is not safe for concurrent use.
type Ownership struct {
	self        Process
	restoreWait time.Duration // after the store was restored, no engine is owned for so long: a process whose record was lost may still grant

	engines    map[string]bool   // all of the colo, by URL; true = the home of the engine's pool is here
	claims     map[string]*claim // engines that are wanted
	limits     map[string]int    // last limit that another process has put for an engine, by URL
	registered bool              // the process is registered, so it may put its record
	assumed    bool              // the process grants on all wanted engines, without the store

	records   map[Process]Record // of all processes, as of revision
	revision  int64
	listed    bool
	notBefore time.Time // no further engine is owned before that time; zero = no limit

	epoch       uint64         // rises with each registration, and each loss of all rights
	lastOwns    map[string]int // Owns of the last put that is known to stand
	lastHeld    map[string]int // Held of the same put
	putRequired bool           // a put has no answer, so another must follow
}

// claim is an engine that this process wants to own.
type claim struct {
	since       time.Time // when it became wanted
	putRevision int64     // of the first put with this entry that is known to stand, since it became wanted; 0 = none yet
	granting    bool
}

// NewOwnership returns an ownership of nothing. After the store was restored, no engine is owned for restoreWait, the TTL of registrations.
func NewOwnership(self Process, restoreWait time.Duration) *Ownership {
	return &Ownership{
		self: self, restoreWait: restoreWait, engines: map[string]bool{}, claims: map[string]*claim{}, limits: map[string]int{},
		records: map[Process]Record{},
	}
}

// Want sets the engines of the colo, by URL; true = the home of the engine's pool is here. The process stops granting at once on an engine
// that is not wanted any more.
func (o *Ownership) Want(engines map[string]bool, now time.Time) {
	o.engines = engines
	maps.DeleteFunc(o.claims, func(url string, _ *claim) bool { return !engines[url] })
	maps.DeleteFunc(o.limits, func(url string, _ int) bool { _, known := engines[url]; return !known })
	for url, wanted := range engines {
		if wanted && o.claims[url] == nil {
			o.claims[url] = &claim{since: now}
		}
	}
	o.establish(now)
}

// Assume makes the process own all that it wants, without a record. It is for a process that starts while the store is away and knows of
// no other server of its colo.
func (o *Ownership) Assume() { o.assumed = true }

// EndAssumption ends the effect of Assume, since another server of the colo has become known. It reports whether Assume was in effect: then
// no engine is owned before the next registration.
func (o *Ownership) EndAssumption() bool {
	if !o.assumed {
		return false
	}
	o.Lose()
	return true
}

// HasRights reports whether the process may own engines: it is registered, or has assumed that it may.
func (o *Ownership) HasRights() bool { return o.registered || o.assumed }

// Lose ends all rights: the process is about to register, or its record is not as it was put. No engine is owned before the next
// registration.
func (o *Ownership) Lose() {
	o.epoch++
	o.registered, o.assumed = false, false
	for _, c := range o.claims {
		c.putRevision, c.granting = 0, false
	}
}

// Registered notes that the process has registered, with a record that owns nothing and holds held.
func (o *Ownership) Registered(held map[string]int) {
	o.Lose()
	o.registered, o.putRequired = true, false
	o.lastOwns, o.lastHeld = map[string]int{}, held
}

// Observe applies a change of the records. alone means that the process knows no other server of its colo. Observe returns false if the
// process has lost its rights by the change: then it must register again.
func (o *Ownership) Observe(c Change, alone bool, now time.Time) bool {
	if c.Listed {
		o.records, o.listed = map[Process]Record{}, true
	}
	for _, p := range c.Deleted {
		delete(o.records, p)
	}
	for _, r := range c.Put {
		o.records[r.Process] = r
		if r.Process != o.self {
			o.noteLimits(&r)
		}
	}
	o.revision = c.Revision
	if c.Restored && !alone {
		o.notBefore = later(o.notBefore, now.Add(o.restoreWait))
	}
	if c.Restored && (!alone || !o.registered) || o.assumed && !alone || !o.recordStands() {
		o.Lose()
		return false
	}
	o.establish(now)
	return true
}

// Restored notes that the store was restored to an older revision, before the records are listed again: the revisions that are known mean
// nothing any more. A process that is not alone loses its rights. alone is as for Observe.
func (o *Ownership) Restored(alone bool, now time.Time) {
	o.listed = false
	if !alone {
		o.notBefore = later(o.notBefore, now.Add(o.restoreWait))
		o.Lose()
	}
}

func (o *Ownership) noteLimits(r *Record) {
	for url, limit := range r.Owns {
		if limit > 0 {
			o.limits[url] = limit
		}
	}
}

// recordStands reports whether the own record has all entries that were put, up to the revision of the view.
func (o *Ownership) recordStands() bool {
	own, found := o.records[o.self]
	for url, c := range o.claims {
		if c.putRevision == 0 || c.putRevision > o.revision {
			continue
		}
		if _, has := own.Owns[url]; !found || !has || own.Revision < c.putRevision {
			return false
		}
	}
	return true
}

// establish begins to grant on each engine for which the view has the own entry and no other record's.
func (o *Ownership) establish(now time.Time) {
	if !o.listed || now.Before(o.notBefore) {
		return
	}
	pending := map[string]*claim{}
	for url, c := range o.claims {
		if !c.granting && c.putRevision > 0 && c.putRevision <= o.revision {
			pending[url] = c
		}
	}
	if len(pending) == 0 {
		return
	}
	// Record by record, since that takes as many steps as there are engines; engine by engine it would be as many for each record.
	for p, r := range o.records {
		if p == o.self {
			continue
		}
		for url := range r.Owns {
			delete(pending, url)
		}
	}
	for _, c := range pending {
		c.granting = true
	}
}

// Resume begins to grant on engines that only had to wait since the store was restored, and reports whether that wait has just ended.
func (o *Ownership) Resume(now time.Time) bool {
	if o.notBefore.IsZero() || now.Before(o.notBefore) {
		return false
	}
	o.notBefore = time.Time{}
	o.establish(now)
	return true
}

// owners returns the other processes whose records own the engine, sorted.
func (o *Ownership) owners(url string) []Process {
	var owners []Process
	for p, r := range o.records {
		if _, owns := r.Owns[url]; owns && p != o.self {
			owners = append(owners, p)
		}
	}
	slices.SortFunc(owners, compare)
	return owners
}

// Grants reports whether the process may grant on an engine.
func (o *Ownership) Grants(url string) bool {
	c := o.claims[url]
	return c != nil && (c.granting || o.assumed)
}

// Shares returns the engines on which the process may grant, by URL.
func (o *Ownership) Shares() map[string]Share {
	taken := o.heldByOthers()
	shares := make(map[string]Share, len(o.claims))
	for url := range o.claims {
		if o.Grants(url) {
			shares[url] = Share{Taken: taken[url], Limit: o.limits[url]}
		}
	}
	return shares
}

func (o *Ownership) heldByOthers() map[string]int {
	held := map[string]int{}
	for p, r := range o.records {
		if p == o.self {
			continue
		}
		for url, n := range r.Held {
			held[url] += n
		}
	}
	return held
}

// Put has the values of the next put: the engines that the process owns or wants to own, with their limits, and its requests on the engines
// on which it may not grant.
type Put struct {
	Owns, Held map[string]int
	epoch      uint64
}

// Next returns the next put. held and limits are the requests that the process has on each engine, and the limits that it has found; the
// caller must count them after the last change of Shares is in force. required means that the put must not wait; otherwise it only lowers
// the counts in Held, or saves a limit. ok is false if there is nothing to put.
func (o *Ownership) Next(held, limits map[string]int) (next Put, required, ok bool) {
	if !o.registered {
		return Put{}, false, false
	}
	next = Put{Owns: make(map[string]int, len(o.claims)), Held: map[string]int{}, epoch: o.epoch}
	for url := range o.claims {
		next.Owns[url] = limits[url]
	}
	for url, n := range held {
		if n > 0 && !o.Grants(url) {
			next.Held[url] = n
		}
	}
	required = o.putRequired || !sameKeys(next.Owns, o.lastOwns) || o.hasUnputClaim()
	return next, required, required || !maps.Equal(next.Held, o.lastHeld) || limitsMoved(o.lastOwns, next.Owns)
}

// hasUnputClaim reports whether an engine is wanted for which no put counts yet. The record may still have its earlier entry, which does not count.
func (o *Ownership) hasUnputClaim() bool {
	for _, c := range o.claims {
		if c.putRevision == 0 {
			return true
		}
	}
	return false
}

// limitsMoved reports whether a limit has changed by more than a quarter.
func limitsMoved(before, now map[string]int) bool {
	for url, limit := range now {
		if old := before[url]; 4*max(limit-old, old-limit) > max(old, limit) {
			return true
		}
	}
	return false
}

// PutStands notes that a put stands in the store since a revision.
func (o *Ownership) PutStands(p Put, revision int64, now time.Time) {
	if p.epoch != o.epoch {
		return // the process has registered again since, with a record that owns nothing
	}
	o.lastOwns, o.lastHeld, o.putRequired = p.Owns, p.Held, false
	for url, c := range o.claims {
		if _, has := p.Owns[url]; has && c.putRevision == 0 {
			c.putRevision = revision
		}
	}
	o.establish(now)
}

// PutUnanswered notes that a put was not answered: it may stand, or may yet take place.
func (o *Ownership) PutUnanswered() { o.putRequired = true }

// Records returns the records of all other processes, sorted.
func (o *Ownership) Records() []Record {
	var all []Record
	for p, r := range o.records {
		if p != o.self {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Record) int { return compare(a.Process, b.Process) })
	return all
}

func sameKeys(a, b map[string]int) bool {
	if len(a) != len(b) {
		return false
	}
	for key := range a {
		if _, ok := b[key]; !ok {
			return false
		}
	}
	return true
}
