package fairqueue

const (
	maxIdleKept = 256  // accounts that are kept only for their estimates
	idleScan    = 4    // idle accounts that are examined when another becomes idle: more than one, so that the list shrinks
	smallMap    = 1024 // entries up to which a map is not replaced by a smaller one
)

// idleList has the accounts with nothing waiting or running, in the order in which they became idle, or were found to be
// still ahead.
type idleList struct {
	first, last *account
	n           int
}

func (l *idleList) push(a *account) {
	a.idle, a.idlePrev = true, l.last
	if l.last != nil {
		l.last.idleNext = a
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
	if a.idlePrev != nil {
		a.idlePrev.idleNext = a.idleNext
	} else {
		l.first = a.idleNext
	}
	if a.idleNext != nil {
		a.idleNext.idlePrev = a.idlePrev
	} else {
		l.last = a.idlePrev
	}
	a.idle, a.idlePrev, a.idleNext = false, nil, nil
	l.n--
}

// retire follows the end of something of a: if a is idle now, it joins the idle list, and accounts that need not be kept
// are forgotten. It is O(1) amortised: a map that shrinks costs O(1) for each account that has left.
func (q *Queue) retire(a *account) {
	if a.held[requests] > 0 || a.running > 0 {
		return
	}
	q.idle.push(a)
	if q.idle.n > 2*maxIdleKept && q.idle.n == len(q.accounts) {
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

// hasLead reports whether a has had more than its share in a band, so that it waits for others when it comes back.
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
	q.latest = nil
	if q.mapPeak > smallMap && len(q.accounts) < q.mapPeak/4 { // Go's maps do not shrink
		kept := make(map[string]*account, len(q.accounts))
		for name, a := range q.accounts {
			kept[name] = a
		}
		q.accounts, q.mapPeak = kept, len(kept)
	}
}

// trimIdle forgets all but the last maxIdleKept accounts when all are idle, and so none is ahead.
func (q *Queue) trimIdle() {
	all := q.idle
	q.idle, q.accounts, q.latest, q.mapPeak = idleList{}, map[string]*account{}, nil, maxIdleKept
	first := all.last
	for range maxIdleKept - 1 {
		first = first.idlePrev
	}
	for a := first; a != nil; {
		next := a.idleNext
		a.idlePrev, a.idleNext = nil, nil
		q.accounts[a.name] = a
		q.idle.push(a)
		a = next
	}
}
