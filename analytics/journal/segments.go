package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	billingPrefix    = ""
	requestsPrefix   = "request-"
	refusalsPrefix   = "refused-"
	beginsPrefix     = "journal-"
	segmentSuffix    = ".log"
	unfinishedSuffix = ".new" // further suffix of a segment that lacks its first lines
	notCounted       = -1
)

// segment is one file. Of two segments of a node, also of different kinds, the one with the lower number was started
// first.
type segment struct {
	number int
	bytes  int64
	events int // events whose newest copy is in this segment; notCounted: unknown, of an earlier run
	finals int // final events in this segment; notCounted likewise

	recorded bool // finals stand in the file of counts
}

// segments are the files of one kind: full ones, and the newest, which grows. Not safe for concurrent use.
type segments struct {
	dir, prefix string
	events      string // which events are in it, for logs and operators
	limit       int64  // bytes of a segment; see capacity

	older     []segment // oldest first
	file      *os.File  // the newest; nil: none was started
	newest    segment
	carried   int64    // bytes of carried begins in the newest
	allocated int64    // size of the newest file: its lines, and zeros up to the end of the window
	window    window   // the mapped end of the newest file
	unmapped  bool     // lines of the newest are written instead
	prepared  *os.File // for the next segment, empty, so that a shortage of file descriptors loses no event; nil: not yet

	dropped uint64    // events that are not kept
	failing bool      // the last append failed
	lost    error     // why an event was lost last; nil: none was
	lostAt  time.Time // when
}

func segmentPath(dir, prefix string, number int) string {
	return filepath.Join(dir, prefix+strconv.Itoa(number)+segmentSuffix)
}

func (s *segments) preparedPath() string {
	return filepath.Join(s.dir, s.prefix+"next"+segmentSuffix+unfinishedSuffix)
}

// openSegments finds the segments of an earlier run. This run appends to new ones only, and opens the first of them here.
func openSegments(dir, prefix, events string, limit int64) (segments, error) {
	s := segments{dir: dir, prefix: prefix, events: events, limit: limit}
	var err error
	if s.older, err = listSegments(dir, prefix); err != nil {
		return segments{}, err
	}
	if n := len(s.older); n > 0 {
		s.newest.number = s.older[n-1].number
	}
	return s, s.prepare()
}

// prepare opens the file of the next segment, if it is not open yet.
func (s *segments) prepare() error {
	if s.prepared != nil {
		return nil
	}
	var err error
	s.prepared, err = os.OpenFile(s.preparedPath(), os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o640)
	return err
}

// discardPrepared removes the prepared file, so that the next attempt to start a segment opens it anew.
func (s *segments) discardPrepared() error {
	if s.prepared == nil {
		return nil
	}
	err := errors.Join(s.prepared.Close(), os.Remove(s.preparedPath()))
	s.prepared = nil
	return err
}

func listSegments(dir, prefix string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list segments: %w", err)
	}
	var found []segment
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), prefix)
		name, isSegment := strings.CutSuffix(name, segmentSuffix)
		number, err := strconv.Atoi(name)
		if !ok || !isSegment || err != nil {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list segments: %w", err)
		}
		found = append(found, segment{number: number, bytes: info.Size(), events: notCounted, finals: notCounted})
	}
	slices.SortFunc(found, func(a, b segment) int { return a.number - b.number })
	return found, nil
}

// isFull reports whether a line of so many bytes must go into a new segment.
func (s *segments) isFull(line int) bool {
	return s.file == nil || s.newest.bytes-s.carried+int64(line) > s.capacity()
}

// capacity returns the bytes that the newest segment takes beyond carried begins: at least as many as those, so that many
// open begins do not start a new segment every few lines.
func (s *segments) capacity() int64 { return max(s.limit, s.carried) }

// roll starts a new segment with the lines of first, of which copies are carried begins: these count as events of the new
// segment instead of the one before.
func (s *segments) roll(number int, first []byte, copies int) error {
	s.retire()
	err := s.prepare()
	if err == nil && len(first) > 0 {
		_, err = s.prepared.Write(first)
	}
	if err == nil {
		err = os.Rename(s.preparedPath(), segmentPath(s.dir, s.prefix, number))
	}
	if err != nil {
		_ = s.discardPrepared()
		return fmt.Errorf("cannot start segment: %w", err)
	}
	file := s.prepared
	s.prepared = nil
	_ = s.prepare() // if it fails, the next roll tries again
	if n := len(s.older); n > 0 && s.older[n-1].events != notCounted {
		s.older[n-1].events -= copies
	}
	s.file = file
	s.carried, s.allocated, s.unmapped = int64(len(first)), int64(len(first)), false
	s.newest = segment{number: number, bytes: s.carried, events: copies}
	return nil
}

// retire closes the newest segment, which becomes one of the older.
func (s *segments) retire() {
	if s.file == nil {
		return
	}
	_ = s.cutTail()    // readers skip zeros
	_ = s.file.Close() // every write was checked
	s.file = nil
	s.newest.bytes = s.allocated
	s.older = append(s.older, s.newest)
}

func (s *segments) close() error {
	err := s.discardPrepared()
	if s.file != nil {
		err = errors.Join(err, s.cutTail(), s.file.Sync(), s.file.Close())
		s.file = nil
	}
	return err
}

// removeOlder removes all segments except the newest, without counting their events.
func (s *segments) removeOlder() error {
	var failed error
	for len(s.older) > 0 {
		if err := os.Remove(segmentPath(s.dir, s.prefix, s.older[0].number)); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = fmt.Errorf("cannot remove segment: %w", err)
		}
		s.older = slices.Delete(s.older, 0, 1)
	}
	return failed
}

// dropOldest removes the oldest full segment and returns the number of its events. Its final events are recorded first, so that a reader
// that has not come so far knows how many it has missed.
func (s *segments) dropOldest() (int, error) {
	oldest := &s.older[0]
	path := segmentPath(s.dir, s.prefix, oldest.number)
	var err error
	if oldest.events == notCounted || oldest.finals == notCounted {
		var lines int
		if lines, oldest.finals, err = countLines(path); oldest.events == notCounted {
			oldest.events = lines
		}
	}
	unrecorded := s.record()
	err = errors.Join(err, os.Remove(path))
	if unrecorded != nil {
		err = errors.Join(err, s.record()) // the disk may have been full
	}
	events := oldest.events
	s.older = slices.Delete(s.older, 0, 1)
	if err != nil {
		err = fmt.Errorf("cannot drop segment: %w", err)
	}
	return events, err
}

// countLines returns how many lines a segment has, and how many of them are final events.
func countLines(path string) (lines, finals int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := reader.ReadSlice('\n')
		switch {
		case err == nil:
			lines++
			fallthrough
		case errors.Is(err, bufio.ErrBufferFull):
			if isFinal(line) {
				finals++
			}
		case errors.Is(err, io.EOF):
			return lines, finals, nil
		default:
			return lines, finals, err
		}
	}
}

func (s *segments) bytes() int64 {
	total := int64(0)
	for _, o := range s.older {
		total += o.bytes
	}
	if s.file != nil {
		total += s.allocated
	}
	return total
}

// projectedBytes returns the size of all segments once the newest is full.
func (s *segments) projectedBytes() int64 {
	total := s.carried + s.capacity()
	for _, o := range s.older {
		total += o.bytes
	}
	return total
}
