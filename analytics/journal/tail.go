package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"colonnade/analytics"
)

// Tail reads the events of every node that logs under a directory while they are being written: first [Tail.Last], the
// newest that are there, then [Tail.Next], again and again, what was appended since. An event that stands there more
// than once (see the package's documentation) is given once. Not safe for concurrent use.
type Tail struct {
	dir   string
	want  func(*analytics.Event) bool
	files map[string]*tailedFile // by path; those that are there
	given map[string]*recent     // by node's folder
	stats TailStats
}

// TailStats are counts since NewTail, but for Unfinished, which is a state.
type TailStats struct {
	Bad        int // lines that are not what was written, or that their writer was killed in
	Unfinished int // lines that are being written, or that their writer was killed in and nobody has written on
	Missed     int // segments that were dropped before they were read to their end
}

// tailedFile is how far a segment was read.
type tailedFile struct {
	head   []byte // which file it was: a path may be given to another, and that the same inode
	offset int64  // behind the last whole line
	half   bool   // something stands behind it
	done   bool   // nothing will be appended
}

// headBytes hold the checksum and the id of a segment's first event.
const headBytes = 64

// NewTail returns a tail of the events under dir (LogConfig.Dir) that want accepts; nil accepts all.
func NewTail(dir string, want func(*analytics.Event) bool) *Tail {
	if want == nil {
		want = func(*analytics.Event) bool { return true }
	}
	return &Tail{dir: filepath.Join(dir, "events"), want: want, files: map[string]*tailedFile{}, given: map[string]*recent{}}
}

// Stats returns the counts so far.
func (t *Tail) Stats() TailStats {
	s := t.stats
	for _, f := range t.files {
		if f.half && !f.done {
			s.Unfinished++
		}
	}
	return s
}

// Last returns the newest n events of all nodes together, by time. Segments are read from the newest backwards, as far
// as it takes. It is to be called once, before Next.
func (t *Tail) Last(n int) ([]analytics.Event, error) {
	logs, err := t.logs()
	if err != nil {
		return nil, err
	}
	var all []analytics.Event
	for _, l := range logs {
		found, err := t.lastOf(l, n)
		if err != nil {
			return nil, err
		}
		all = newest(append(all, found...), n)
	}
	return all, nil
}

// lastOf returns the newest n events of one log. Events stand in the order of their time, but for begins that were
// carried into a segment: so the time of the first end that was read says from when on nothing is missing.
func (t *Tail) lastOf(l tailedLog, n int) ([]analytics.Event, error) {
	var found []analytics.Event
	complete := false
	for i := len(l.segments) - 1; i >= 0; i-- {
		if complete {
			t.files[l.path(i)] = &tailedFile{done: true}
			continue
		}
		var first analytics.Event // the first end
		err := t.read(l, i, func(e *analytics.Event) {
			if first.Phase == "" && e.Phase == analytics.PhaseEnd {
				first = *e
			}
			// Those of the newest segment are what a new one may repeat.
			if t.want(e) && (!l.grows(i) || t.recent(l.dir).add(e)) {
				if found = append(found, *e); len(found) > 2*n+1024 {
					found = newest(found, n)
				}
			}
		})
		if err != nil {
			return nil, err
		}
		found = newest(withoutTwins(found), n)
		complete = len(found) >= n && (n == 0 || first.Phase != "" && !found[0].Time.Before(first.Time))
	}
	return found, nil
}

// Next returns what was appended since the last call, by time. It does not wait. An error that is os.ErrNotExist
// says that the directory has gone; once it is back, Next goes on.
func (t *Tail) Next() ([]analytics.Event, error) {
	logs, err := t.logs()
	if err != nil {
		return nil, err
	}
	var all []analytics.Event
	there := map[string]bool{}
	for _, l := range logs {
		given := t.recent(l.dir)
		for i := range l.segments {
			there[l.path(i)] = true
			err := t.read(l, i, func(e *analytics.Event) {
				if t.want(e) && given.add(e) {
					all = append(all, *e)
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	t.forget(there)
	return newest(all, len(all)), nil
}

// forget lets go of segments that were dropped.
func (t *Tail) forget(there map[string]bool) {
	for path, f := range t.files {
		if !there[path] {
			if !f.done {
				t.stats.Missed++
			}
			delete(t.files, path)
		}
	}
}

// tailedLog is the segments of one node with one prefix, oldest first.
type tailedLog struct {
	dir, prefix string
	segments    []segment
}

func (l tailedLog) path(i int) string { return segmentPath(l.dir, l.prefix, l.segments[i].number) }

// grows says whether a segment was the newest when they were listed. To any other nobody writes any more.
func (l tailedLog) grows(i int) bool { return i == len(l.segments)-1 }

func (t *Tail) logs() ([]tailedLog, error) {
	nodes, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read events: %w", err)
	}
	var all []tailedLog
	for _, node := range nodes {
		if !node.IsDir() {
			continue
		}
		for _, prefix := range []string{billsPrefix, refusedPrefix} {
			dir := filepath.Join(t.dir, node.Name())
			found, err := listSegments(dir, prefix)
			if errors.Is(err, os.ErrNotExist) { // removed since it was listed
				break
			}
			if err != nil {
				return nil, err
			}
			all = append(all, tailedLog{dir: dir, prefix: prefix, segments: found})
		}
	}
	return all, nil
}

// read passes on the whole lines behind what was read of a segment. Half a line is left until there is more of it;
// where nobody writes any more, it stays one.
func (t *Tail) read(l tailedLog, i int, take func(*analytics.Event)) error {
	path := l.path(i)
	f := t.files[path]
	if f != nil && f.done {
		return nil
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // dropped since it was listed
		if f == nil {
			t.stats.Missed++ // else forget counts it
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read events: %w", err)
	}
	defer file.Close()
	head := make([]byte, headBytes)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read events: %w", err)
	}
	if f == nil || !bytes.HasPrefix(head[:n], f.head) {
		f = &tailedFile{}
		t.files[path] = f
	}
	f.head = head[:n]
	if err := t.lines(file, f, take); err != nil {
		return fmt.Errorf("cannot read events: %s: %w", path, err)
	}
	f.done = !l.grows(i)
	if f.done && f.half {
		t.stats.Bad++
	}
	return nil
}

func (t *Tail) lines(file *os.File, f *tailedFile, take func(*analytics.Event)) error {
	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			f.half = len(line) > 0 // read again when there is more of it
			return nil
		}
		if err != nil {
			return err
		}
		f.offset += int64(len(line))
		if e, err := parseLine(line[:len(line)-1]); err != nil {
			t.stats.Bad++
		} else {
			take(&e)
		}
	}
}

func (t *Tail) recent(node string) *recent {
	if t.given[node] == nil {
		t.given[node] = &recent{now: map[eventPhase]struct{}{}}
	}
	return t.given[node]
}

// newest returns the last n by time, the oldest first.
func newest(events []analytics.Event, n int) []analytics.Event {
	slices.SortStableFunc(events, func(a, b analytics.Event) int { return a.Time.Compare(b.Time) })
	return events[max(0, len(events)-n):]
}

func withoutTwins(events []analytics.Event) []analytics.Event {
	seen := make(map[eventPhase]bool, len(events))
	return slices.DeleteFunc(events, func(e analytics.Event) bool {
		twin := seen[eventPhase{e.EventID, e.Phase}]
		seen[eventPhase{e.EventID, e.Phase}] = true
		return twin
	})
}

// eventPhase is what an event that is there twice has in common.
type eventPhase struct {
	id    string
	phase analytics.Phase
}

// recentEvents is more than a node writes between two copies of one begin: the events of a segment.
const recentEvents = 1 << 17

// recent remembers at least the last recentEvents of one node, and at most twice as many.
type recent struct {
	now, before map[eventPhase]struct{}
}

// add says whether the event is new.
func (r *recent) add(e *analytics.Event) bool {
	key := eventPhase{e.EventID, e.Phase}
	if _, known := r.now[key]; known {
		return false
	}
	_, known := r.before[key]
	if len(r.now) >= recentEvents {
		r.now, r.before = map[eventPhase]struct{}{}, r.now
	}
	r.now[key] = struct{}{} // also one that is known: it may be repeated once more
	return !known
}
