package fairqueue

const (
	maxIdleKept = 256  // accounts that are kept though nothing of theirs matters but what they have taught
	idleScan    = 4    // idle accounts that are looked at when another one is: more than come
	smallMap    = 1024 // entries that need no smaller map
)

// idleList are the accounts that neither wait nor run, those foremost that have been so for the longest, or that were
// ahead when that was looked at last.
type idleList struct {
	first, last *account
	n           int
}

func (l *idleList) push(a *account) {
	a.idle, a.earlier = true, l.last
	if l.last != nil {
		l.last.later = a
	} else {
		l.first = a
	}
	l.last = a
	l.n++
}

func (l *idleList) remove(a *account) {
	if !a.idle {
		return
	}
	if a.earlier != nil {
		a.earlier.later = a.later
	} else {
		l.first = a.later
	}
	if a.later != nil {
		a.later.earlier = a.earlier
	} else {
		l.last = a.earlier
	}
	a.idle, a.earlier, a.later = false, nil, nil
	l.n--
}

// retire takes note that something of a has ended, and forgets whom it may. It is O(1) but when a map shrinks, which is
// O(1) for each account that has left.
func (q *Queue) retire(a *account) {
	if a.held[requests] > 0 || a.running() > 0 {
		return
	}
	q.idle.push(a)
	if q.idle.n == len(q.accounts) {
		q.trimIdle()
	}
	for range idleScan {
		if q.idle.n <= maxIdleKept {
			return
		}
		oldest := q.idle.first
		q.idle.remove(oldest)
		if q.hasLead(oldest) {
			q.idle.push(oldest)
		} else {
			q.forget(oldest)
		}
	}
}

// hasLead says whether a has had more than it had coming, and so has to wait for others when it comes back.
func (q *Queue) hasLead(a *account) bool {
	for i := range a.flows {
		if f := &a.flows[i]; f.s > q.vtimeFloor(f.band) {
			return true
		}
	}
	return false
}

func (q *Queue) forget(a *account) {
	delete(q.accounts, a.name)
	if q.mapPeak > smallMap && len(q.accounts) < q.mapPeak/4 { // a map does not shrink by itself
		kept := make(map[string]*account, len(q.accounts))
		for name, a := range q.accounts {
			kept[name] = a
		}
		q.accounts, q.mapPeak = kept, len(kept)
	}
}

// trimIdle forgets all but a few when nobody waits or runs, so that nobody is ahead: there may be many.
func (q *Queue) trimIdle() {
	if q.idle.n <= 2*maxIdleKept {
		return
	}
	all := q.idle
	q.idle, q.accounts, q.mapPeak = idleList{}, map[string]*account{}, maxIdleKept
	first := all.last
	for range maxIdleKept - 1 {
		first = first.earlier
	}
	for a := first; a != nil; {
		next := a.later
		a.earlier, a.later = nil, nil
		q.accounts[a.name] = a
		q.idle.push(a)
		a = next
	}
}
