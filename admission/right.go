package admission

import "time"

// GrantUntil says how long permits may be granted; a moment that is past ends it at once. Until it is first called,
// they may be without end. Requests wait while there is no right, and are served when it returns.
func (d *Desk) GrantUntil(until time.Time) {
	d.right.Set(until)
	for _, p := range d.Pools() {
		p.permits.Dispatch() // also if the right was there a moment ago: it may have ended in between
	}
}

// MayGrant says whether permits may be granted now.
func (d *Desk) MayGrant() bool { return d.right.Held() }
