package homes

import (
	"maps"
	"slices"
	"time"
)

// Ownership decides on which engines one server process may grant, from the records of all processes of its colo. See the package's
// documentation for the rules. It has no clock and does no I/O. It is not safe for concurrent use.
type Ownership struct {
	self    Process
	caution time.Duration // nothing new is owned for so long after the store was restored: a process whose record was lost may still grant

	engines    map[string]bool   // those of the colo, by URL; true = the home of its pool is here
	claims     map[string]*claim // engines that are wanted
	limits     map[string]int    // last limit of an engine that another process has put
	registered bool              // puts are accepted
	assumed    bool              // grants on all that is wanted, without the store

	records  map[Process]Record // of all processes, as of revision
	revision int64
	listed   bool
	careful  time.Time // nothing new is owned before

	epoch       uint64         // rises with each registration, and each loss of all rights
	standing    map[string]int // what the last put that is known to stand owns
	published   map[string]int // what it holds
	putRequired bool           // whether the store has the last put is not known
}

// claim is an engine that this process wants to own.
type claim struct {
	since    time.Time // when it was wanted
	stands   int64     // revision of the first put that has it, since it was wanted, and is known to stand; 0 = none
	granting bool
}

// NewOwnership returns an ownership of nothing. caution is the TTL of registrations.
func NewOwnership(self Process, caution time.Duration) *Ownership {
	return &Ownership{
		self: self, caution: caution, engines: map[string]bool{}, claims: map[string]*claim{}, limits: map[string]int{},
		records: map[Process]Record{},
	}
}

// Want sets the engines of the colo, by URL; true = the home of the engine's pool is here. An engine that is not wanted any more is not
// granted on from now on.
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

// EndAssumption ends what Assume has begun, since another server of the colo is known by now. It reports whether there was something to
// end: then nothing is owned before the next registration.
func (o *Ownership) EndAssumption() bool {
	if !o.assumed {
		return false
	}
	o.Lose()
	return true
}

// HasRights reports whether the process may own engines: it is registered, or has assumed that it may.
func (o *Ownership) HasRights() bool { return o.registered || o.assumed }

// IsListed reports whether the records of all processes are known.
func (o *Ownership) IsListed() bool { return o.listed }

// Lose ends all rights: the process is about to register, or its record does not stand as it was put. Nothing is owned before the next
// registration.
func (o *Ownership) Lose() {
	o.epoch++
	o.registered, o.assumed = false, false
	for _, c := range o.claims {
		c.stands, c.granting = 0, false
	}
}

// Registered notes that the process has registered, with a record that owns nothing and holds what is given.
func (o *Ownership) Registered(held map[string]int) {
	o.Lose()
	o.registered, o.putRequired = true, false
	o.standing, o.published = map[string]int{}, held
}

// Observe takes a change of the records. alone says that the process knows no other server of its colo. Observe returns false if the
// process has lost its rights by it: then it must register again.
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
		o.careful = later(o.careful, now.Add(o.caution))
	}
	if c.Restored && (!alone || !o.registered) || o.assumed && !alone || !o.recordStands() {
		o.Lose()
		return false
	}
	o.establish(now)
	return true
}

// Restored notes that the store was restored to an older revision, before the records were listed again: revisions of before say nothing any
// more. alone is as for Observe.
func (o *Ownership) Restored(alone bool, now time.Time) {
	o.listed = false
	if !alone {
		o.careful = later(o.careful, now.Add(o.caution))
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

// recordStands reports whether the own record has what was put, as far as the view shows it.
func (o *Ownership) recordStands() bool {
	own, found := o.records[o.self]
	for url, c := range o.claims {
		if c.stands == 0 || c.stands > o.revision {
			continue
		}
		if _, has := own.Owns[url]; !found || !has || own.Revision < c.stands {
			return false
		}
	}
	return true
}

// establish begins to grant where the own entry has come back and no other record owns the engine.
func (o *Ownership) establish(now time.Time) {
	if !o.listed || now.Before(o.careful) {
		return
	}
	pending := map[string]*claim{}
	for url, c := range o.claims {
		if !c.granting && c.stands > 0 && c.stands <= o.revision {
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

// Resume begins to grant where only the time since a restored store was missing, and reports whether that time has just passed.
func (o *Ownership) Resume(now time.Time) bool {
	if o.careful.IsZero() || now.Before(o.careful) {
		return false
	}
	o.careful = time.Time{}
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

// Put is what the process has to put: what it owns or wants to own, and what it holds on engines that it may not grant on.
type Put struct {
	Owns, Held map[string]int
	epoch      uint64
}

// Next returns the next put. held and limits are what the process has in hand on each engine, and the limits that it has found, counted
// after the last change of Shares was in force. Required means that it must not wait; otherwise it only counts down what is held, or
// keeps a limit. ok is false if there is nothing to put.
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
	required = o.putRequired || !sameKeys(next.Owns, o.standing) || o.unstood()
	return next, required, required || !maps.Equal(next.Held, o.published) || limitsMoved(o.standing, next.Owns)
}

// unstood reports whether an engine is wanted again of which the record has the entry of before: only a later put counts.
func (o *Ownership) unstood() bool {
	for _, c := range o.claims {
		if c.stands == 0 {
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

// Stands notes that a put stands in the store, as of a revision.
func (o *Ownership) Stands(p Put, revision int64, now time.Time) {
	if p.epoch != o.epoch {
		return // the process has registered again since, with a record that owns nothing
	}
	o.standing, o.published, o.putRequired = p.Owns, p.Held, false
	for url, c := range o.claims {
		if _, has := p.Owns[url]; has && c.stands == 0 {
			c.stands = revision
		}
	}
	o.establish(now)
}

// Unanswered notes that it is not known whether a put stands: it may yet take place.
func (o *Ownership) Unanswered() { o.putRequired = true }

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
