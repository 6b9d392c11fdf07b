package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"colonnade/analytics"
)

// ReadDir yields the events of every node that logs under dir (Config.Dir): node by node, first inferences, then
// requests, then refusals, each oldest first, without begins of requests. A bad line yields an error that wraps ErrTorn or
// ErrCorrupt, and reading continues after it. A begin that outlived segments comes once for each; see the package's
// documentation.
func ReadDir(dir string) iter.Seq2[analytics.Event, error] {
	return func(yield func(analytics.Event, error) bool) {
		logs, err := listLogs(dir)
		if err != nil {
			yield(analytics.Event{}, err)
			return
		}
		for _, l := range logs {
			for i, s := range l.segments {
				for e, err := range readSegment(l.path(s), new(int64), i == len(l.segments)-1) {
					if errors.Is(err, os.ErrNotExist) {
						break // dropped since it was listed
					}
					if !yield(e, err) {
						return
					}
				}
			}
		}
	}
}

// nodeLog is the segments of one node and one kind, oldest first.
type nodeLog struct {
	dir, prefix string
	segments    []segment
}

func (l nodeLog) path(s segment) string { return segmentPath(l.dir, l.prefix, s.number) }

// listLogs returns the segments of final events of every node that logs under dir.
func listLogs(dir string) ([]nodeLog, error) {
	events := filepath.Join(dir, "events")
	nodes, err := os.ReadDir(events)
	if err != nil {
		return nil, fmt.Errorf("cannot read events: %w", err)
	}
	var logs []nodeLog
	for _, node := range nodes {
		if !node.IsDir() {
			continue
		}
		for _, prefix := range []string{billingPrefix, requestsPrefix, refusalsPrefix} {
			l := nodeLog{dir: filepath.Join(events, node.Name()), prefix: prefix}
			if l.segments, err = listSegments(l.dir, prefix); err != nil {
				return nil, err
			}
			logs = append(logs, l)
		}
	}
	return logs, nil
}

// endsHere reports whether a segment that grows has no further line yet.
func endsHere(lines *bufio.Reader) bool {
	next, err := lines.Peek(1)
	return err != nil || next[0] == 0
}

// readSegment yields the events of a segment from an offset on, in the order in which they were appended, and moves the
// offset behind each line. A corrupt line yields an error that wraps ErrCorrupt, and reading continues after it. An
// incomplete last line yields one that wraps ErrTorn, and leaves the offset before that line. Any other error is the last.
//
// Zeros behind the last line are no line. A segment that grows ends at the first of them. In any other, lines may follow that
// were written to the disk before the machine lost power, while those in between were not, which are one corrupt line.
func readSegment(path string, offset *int64, grows bool) iter.Seq2[analytics.Event, error] {
	return func(yield func(analytics.Event, error) bool) {
		fail := func(err error) bool { return yield(analytics.Event{}, fmt.Errorf("cannot read events: %w", err)) }
		file, err := os.Open(path)
		if err != nil {
			fail(err)
			return
		}
		defer file.Close()
		if _, err := file.Seek(*offset, io.SeekStart); err != nil {
			fail(err)
			return
		}
		lines := bufio.NewReaderSize(file, 64<<10)
		for {
			if next, err := lines.Peek(1); grows && err == nil && next[0] == 0 {
				return
			}
			line, err := lines.ReadBytes('\n')
			text := bytes.TrimLeft(line, "\x00")
			switch {
			case errors.Is(err, io.EOF) && len(text) == 0:
				return
			case errors.Is(err, io.EOF):
				fail(fmt.Errorf("%s, byte %d: %w", path, *offset, ErrTorn))
				return
			case err != nil:
				fail(err)
				return
			}
			e, err := parseLine(text[:len(text)-1])
			if err != nil && grows && endsHere(lines) {
				err = ErrTorn // its writer may store it now, and another processor may see the stores in another order
				fail(fmt.Errorf("%s, byte %d: %w", path, *offset, err))
				return
			}
			if err != nil {
				err = fmt.Errorf("%s, byte %d: %w", path, *offset, err)
			} else if hole := len(line) - len(text); hole > 0 && !fail(fmt.Errorf("%s, byte %d: %d zeros: %w", path, *offset, hole, ErrCorrupt)) {
				return
			}
			*offset += int64(len(line))
			if !yield(e, err) {
				return
			}
		}
	}
}
