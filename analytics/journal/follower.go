package journal

import (
	"bytes"
	"errors"
	"fmt"
)

// Follower reads the final events of one node as the JSON in which they were written, while its segments grow and are dropped. Within
// each kind of segments, events come in the order of the journal; events of several kinds, by time. A kind that cannot be read does not hold back
// the others. Not safe for concurrent use.
type Follower struct {
	directory directory
	streams   [3]stream
	at        Cursor // behind the event that Next has passed last
	next      int    // stream whose head Peek has returned; -1 = none
}

// NewFollower returns a follower of the events of a node under dir (Config.Dir), from a cursor on. nil stands for the oldest events that exist.
func NewFollower(dir, node string, from *Cursor) (*Follower, error) {
	r := &Follower{directory: directory{dir: nodeDir(dir, node)}, next: -1}
	if err := r.directory.look(); err != nil {
		return nil, fmt.Errorf("cannot read events: %w", err)
	}
	for i, p := range r.at.positions() {
		if from == nil {
			*p = r.directory.start(i)
		} else {
			*p = *from.positions()[i]
		}
		if !continues(segmentPath(r.directory.dir, streamPrefixes()[i], p.Segment), p.Offset) {
			p.Offset, p.Finals = 0, 0 // the machine has lost power, and with it the end of the segment
		}
		r.streams[i] = stream{kind: i, at: *p, done: true}
	}
	return r, nil
}

// Look looks for what was written since the last call: Peek finds the events that exist now, and perhaps some later ones.
func (r *Follower) Look() error {
	if err := r.directory.look(); err != nil {
		return fmt.Errorf("cannot read events: %w", err)
	}
	for i := range r.streams {
		s := &r.streams[i]
		before := s.at.Segment
		if s.head == nil {
			r.directory.catchUp(i, &s.at)
		}
		if s.at.Segment != before {
			s.buffer = nil
		}
		s.refresh()
	}
	return nil
}

// Peek returns the JSON of the next event that can be read, nil if there is none. It is valid until the next call of Look or Next.
func (r *Follower) Peek() []byte {
	r.next = -1
	for i := range r.streams {
		s := &r.streams[i]
		if s.head == nil && !s.done {
			if s.err = s.find(&r.directory); s.err != nil {
				s.done = true
			}
		}
		if s.head != nil && (r.next < 0 || bytes.Compare(s.time, r.streams[r.next].time) < 0) {
			r.next = i
		}
	}
	if r.next < 0 {
		return nil
	}
	return r.streams[r.next].head
}

// Err returns why Peek leaves out events, nil if it leaves out none. They are read again after the next Look.
func (r *Follower) Err() error {
	if err := errors.Join(r.streams[0].err, r.streams[1].err, r.streams[2].err); err != nil {
		return fmt.Errorf("cannot read events: %w", err)
	}
	return nil
}

// Next passes the event that Peek has returned.
func (r *Follower) Next() {
	if r.next < 0 {
		return
	}
	s := &r.streams[r.next]
	s.head = nil
	*r.at.positions()[r.next] = s.at
	r.next = -1
}

// At returns the cursor behind the last event that was passed.
func (r *Follower) At() Cursor { return r.at }

// Position returns the position of the event that Peek has returned, as a part of a file name.
func (r *Follower) Position() string {
	s := &r.streams[max(r.next, 0)]
	return fmt.Sprintf("%s%d-%d", streamPrefixes()[s.kind], s.at.Segment, s.at.Finals)
}
