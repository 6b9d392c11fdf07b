package journal

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"colonnade/analytics"
)

// Tail reads the final events of every node that logs under a directory while they are written: first [Tail.Last], the
// newest that exist, then [Tail.Next] again and again, what was appended since. Not safe for concurrent use.
type Tail struct {
	dir  string
	want func(*analytics.Event) bool
	read map[string]position // by directory and prefix of segments
	bad  int
}

// position is how far segments of one kind were read.
type position struct {
	number int   // of the newest segment that was read
	offset int64 // in that segment, behind the last complete line
}

// NewTail returns a tail of the final events under dir (Config.Dir) that want accepts.
func NewTail(dir string, want func(*analytics.Event) bool) *Tail {
	return &Tail{dir: dir, want: want, read: map[string]position{}}
}

// Bad returns the number of corrupt lines so far.
func (t *Tail) Bad() int { return t.bad }

// Last returns the newest n events of all nodes together, ordered by time. It reads each node's segments from the newest
// backwards, as far as necessary: final events are in segments in the order of their times. Call it once, before Next.
func (t *Tail) Last(n int) ([]analytics.Event, error) {
	logs, err := listLogs(t.dir)
	if err != nil {
		return nil, err
	}
	var all []analytics.Event
	for _, l := range logs {
		newest := len(l.segments) - 1
		var found []analytics.Event
		for i := newest; i >= 0 && (i == newest || len(found) < n); i-- {
			var offset int64
			older, err := t.readFrom(l, i, &offset)
			if err != nil {
				return nil, err
			}
			if i == newest {
				t.read[l.dir+l.prefix] = position{l.segments[i].number, offset}
			}
			found = append(older, found...)
		}
		all = latest(append(all, found...), n)
	}
	return all, nil
}

// Next returns the events that were appended since the last call, ordered by time. It does not wait. While the directory
// does not exist, there are none.
func (t *Tail) Next() ([]analytics.Event, error) {
	logs, err := listLogs(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []analytics.Event
	for _, l := range logs {
		at := t.read[l.dir+l.prefix]
		if n := len(l.segments); n > 0 && l.segments[n-1].number < at.number {
			at = position{} // the node was set up anew
		}
		for i, s := range l.segments {
			if s.number < at.number {
				continue
			}
			if s.number > at.number || !continues(l.path(s), at.offset) {
				at = position{number: s.number}
			}
			events, err := t.readFrom(l, i, &at.offset)
			if err != nil {
				return nil, err
			}
			all = append(all, events...)
		}
		t.read[l.dir+l.prefix] = at
	}
	return latest(all, len(all)), nil
}

// continues reports whether a line ends at an offset of a segment. It does not if a node that was set up anew has started another
// segment of that number.
func continues(path string, offset int64) bool {
	if offset == 0 {
		return true
	}
	file, err := os.Open(path)
	if err != nil {
		return true // dropped since it was listed, or whatever reads on says so
	}
	defer file.Close()
	var before [1]byte
	_, err = file.ReadAt(before[:], offset-1)
	return err == nil && before[0] == '\n'
}

// readFrom returns the wanted events of a segment from an offset on, and moves the offset behind the last complete line.
func (t *Tail) readFrom(l nodeLog, i int, offset *int64) ([]analytics.Event, error) {
	grows := i == len(l.segments)-1
	var found []analytics.Event
	for e, err := range readSegment(l.path(l.segments[i]), offset, grows) {
		switch {
		case errors.Is(err, ErrTorn) && grows: // its writer has not finished it
		case errors.Is(err, ErrTorn), errors.Is(err, ErrCorrupt):
			t.bad++
		case errors.Is(err, os.ErrNotExist): // dropped since it was listed
		case err != nil:
			return nil, err
		case e.Phase == analytics.PhaseEnd && t.want(&e):
			found = append(found, e)
		}
	}
	return found, nil
}

// latest returns the last n by time, the oldest first.
func latest(events []analytics.Event, n int) []analytics.Event {
	slices.SortStableFunc(events, func(a, b analytics.Event) int { return a.Time.Compare(b.Time) })
	return events[max(0, len(events)-n):]
}
