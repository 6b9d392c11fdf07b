package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"
)

// ReaderConfig says which events a [Reader] reads.
type ReaderConfig struct {
	Dir    string // Config.Dir
	Node   string // empty: every node that logs under Dir
	Begins bool   // begins too, also those of requests; else final events only

	// Since and Until leave out segments that were written before or after, by the times of their first final events; zero = none. Events
	// of the other segments are read whatever their times.
	Since, Until time.Time

	Want func(json []byte) bool // selects events by their JSON; nil = all
	Pace func(bytes int) error  // called after so many bytes were read; its error ends the reading; nil = not paced
}

// Reader reads the events of nodes in the order of their times, also while they are written. It holds one event of each kind of segments in
// memory. Not safe for concurrent use.
type Reader struct {
	config ReaderConfig
	at     map[string]position // by directory and prefix of segments; a missing one has not been read
	found  bool                // the directory existed
}

// position is how far segments of one kind were read.
type position struct {
	number int   // of a segment
	offset int64 // in that segment, where a line begins
}

func (p position) before(q position) bool {
	return p.number < q.number || p.number == q.number && p.offset < q.offset
}

// Line is one event.
type Line struct {
	JSON []byte    // without a newline; valid until the next line is read
	Time time.Time // of the event
}

// readLine is a line, or the error of a bad one, and where it stands.
type readLine struct {
	Line
	err        error
	start, end position
}

// NewReader returns a reader that begins with the oldest events.
func NewReader(c ReaderConfig) *Reader { return &Reader{config: c, at: map[string]position{}} }

// Lines yields the events that were not read yet, and ends when there are no more for now: to follow, call it again after a while. A bad line
// yields an error that wraps ErrTorn or ErrCorrupt, and reading continues after it; any other error is the last. Each node writes the events
// of a kind in the order of their times, as long as its clock is not set back. A directory that does not exist is an error at the first call,
// and later has no events.
func (r *Reader) Lines() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		logs, err := r.listLogs()
		if err != nil {
			yield(Line{}, err)
			return
		}
		var open []*openLog
		defer func() {
			for _, o := range open {
				o.stop()
			}
		}()
		for _, l := range logs {
			next, stop := iter.Pull(r.readLog(l))
			o := &openLog{key: l.key(), next: next, stop: stop}
			open = append(open, o)
			if !r.advance(o, yield) {
				return
			}
		}
		for o := oldestOf(open); o != nil; o = oldestOf(open) {
			r.at[o.key] = o.head.end
			if !yield(o.head.Line, nil) || !r.advance(o, yield) {
				return
			}
		}
	}
}

// openLog is a log that is being read, with its next line.
type openLog struct {
	key  string
	next func() (readLine, bool)
	stop func()
	head *readLine // nil at its end
}

// oldestOf returns the log with the oldest next line; nil at the end of all.
func oldestOf(open []*openLog) *openLog {
	var oldest *openLog
	for _, o := range open {
		if o.head != nil && (oldest == nil || o.head.Time.Before(oldest.head.Time)) {
			oldest = o
		}
	}
	return oldest
}

// advance reads the next line of a log. It yields errors, and returns false if reading ends.
func (r *Reader) advance(o *openLog, yield func(Line, error) bool) bool {
	for {
		line, ok := o.next()
		if !ok {
			o.head = nil
			return true
		}
		if line.err == nil {
			r.at[o.key], o.head = line.start, &line
			return true
		}
		r.at[o.key] = line.end
		bad := errors.Is(line.err, ErrTorn) || errors.Is(line.err, ErrCorrupt)
		if !yield(Line{}, line.err) || !bad {
			return false
		}
	}
}

// listLogs lists the logs, with the segments that are read.
func (r *Reader) listLogs() ([]nodeLog, error) {
	prefixes := finalPrefixes
	if r.config.Begins {
		prefixes = append([]string{beginsPrefix}, prefixes...)
	}
	logs, err := listLogs(r.config.Dir, r.config.Node, prefixes)
	if errors.Is(err, fs.ErrNotExist) && r.found {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.found = true
	for _, l := range logs {
		at, read := r.at[l.key()]
		switch n := len(l.segments); {
		case n == 0:
		case !read:
			r.at[l.key()] = position{number: l.segments[l.indexSince(r.config.Since)].number}
		case l.segments[n-1].number < at.number:
			r.at[l.key()] = position{} // the node was set up anew
		}
	}
	return logs, nil
}

// readLog yields the wanted lines of a log, and the errors of bad ones, from the reader's position on.
func (r *Reader) readLog(l nodeLog) iter.Seq[readLine] {
	return func(yield func(readLine) bool) {
		at := r.at[l.key()]
		until := len(l.segments)
		if !r.config.Until.IsZero() {
			until = l.indexUntil(r.config.Until)
		}
		for i, s := range l.segments[:until] {
			if s.number < at.number {
				continue
			}
			if s.number > at.number || !continues(l.path(s), at.offset) {
				at = position{number: s.number}
			}
			if !r.readSegment(l, i, &at, yield) {
				return
			}
		}
		r.at[l.key()] = at
	}
}

// readSegment yields the wanted lines of one segment, and moves the position behind the last complete one. It returns false if reading ends.
func (r *Reader) readSegment(l nodeLog, i int, at *position, yield func(readLine) bool) bool {
	grows := i == len(l.segments)-1
	start := *at
	for body, err := range readLines(l.path(l.segments[i]), &at.offset, readOptions{grows: grows, pace: r.config.Pace}) {
		line := readLine{err: err, start: start, end: *at}
		switch {
		case errors.Is(err, ErrTorn) && grows: // its writer has not finished it
			continue
		case errors.Is(err, os.ErrNotExist): // dropped since it was listed
			continue
		case err == nil && !r.wants(body):
			start = *at
			continue
		case err == nil:
			line.JSON, line.Time = body, TimeOf(body)
		}
		if !yield(line) {
			return false
		}
		start = *at
	}
	return true
}

func (r *Reader) wants(body []byte) bool {
	return (r.config.Begins || isFinal(body)) && (r.config.Want == nil || r.config.Want(body))
}

// These texts stand nowhere else in the JSON of an event, since quotes inside strings are escaped. They begin behind a quote: events have so many
// quotes that a search for one takes three times as long.
var (
	finalPhase = []byte(`phase":"end"`)
	timeField  = []byte(`time":"`)
	ofEngine   = []byte(`kind":"engine"`)
)

// isFinal reports whether the JSON is that of a final event.
func isFinal(body []byte) bool { return bytes.Contains(body, finalPhase) }

// TimeOf returns the time of an event by its JSON; zero if it has none.
func TimeOf(body []byte) time.Time {
	_, rest, _ := bytes.Cut(body, timeField)
	text, _, _ := bytes.Cut(rest, []byte{'"'})
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}
	}
	return t
}

// mark is where a wanted line of a log begins.
type mark struct {
	log  string
	time time.Time
	position
}

// SkipToLast moves the reader to the newest n events that exist; where incidents of engines stand among them, possibly further back. It reads each log from its newest segment backwards, as far as necessary.
// Call it before Lines.
func (r *Reader) SkipToLast(n int) error {
	logs, err := r.listLogs()
	if err != nil {
		return err
	}
	var all []mark
	for _, l := range logs {
		marks, err := r.lastOf(l, n)
		if err != nil {
			return err
		}
		all = append(all, marks...)
	}
	slices.SortStableFunc(all, func(a, b mark) int { return a.time.Compare(b.time) })
	chosen, moved := map[string]int{}, map[string]bool{}
	for _, m := range all[max(0, len(all)-n):] {
		chosen[m.log]++
	}
	slices.Reverse(all)
	for _, m := range all {
		if chosen[m.log] > 0 {
			chosen[m.log]--
			if !moved[m.log] || m.before(r.at[m.log]) { // a log is not in the order of times where it has incidents of engines
				r.at[m.log], moved[m.log] = m.position, true
			}
		}
	}
	return nil
}

// lastOf returns where the newest events of a log begin, n of them or more if it has as many, and moves the reader behind its last line.
func (r *Reader) lastOf(l nodeLog, n int) ([]mark, error) {
	var marks []mark
	newest := len(l.segments) - 1
	first := r.at[l.key()].number
	for i := newest; i >= 0 && l.segments[i].number >= first && (i == newest || len(marks) < n); i-- {
		var older []mark
		var failed error
		at := position{number: l.segments[i].number}
		r.readSegment(l, i, &at, func(line readLine) bool {
			switch {
			case line.err == nil:
				older = append(older, mark{l.key(), line.Time, line.start})
			case !errors.Is(line.err, ErrTorn) && !errors.Is(line.err, ErrCorrupt):
				failed = line.err
			}
			return failed == nil
		})
		if failed != nil {
			return nil, fmt.Errorf("cannot find the newest events: %w", failed)
		}
		if i == newest {
			r.at[l.key()] = at
		}
		marks = append(older, marks...)
	}
	return marks, nil
}
