package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"colonnade/analytics"
)

// ReadDir yields the events of every node that logs under dir (LogConfig.Dir): node by node, oldest first, refusals
// after the rest. A bad line gives an error that wraps ErrTorn or ErrCorrupt, and reading goes on after it.
// A begin that outlived a segment is there once for each; see the package's documentation.
func ReadDir(dir string) iter.Seq2[analytics.Event, error] {
	return func(yield func(analytics.Event, error) bool) {
		events := filepath.Join(dir, "events")
		nodes, err := os.ReadDir(events)
		if err != nil {
			yield(analytics.Event{}, fmt.Errorf("cannot read events: %w", err))
			return
		}
		for _, node := range nodes {
			if node.IsDir() && !readNode(filepath.Join(events, node.Name()), yield) {
				return
			}
		}
	}
}

func readNode(dir string, yield func(analytics.Event, error) bool) bool {
	for _, prefix := range []string{billsPrefix, refusedPrefix} {
		found, err := listSegments(dir, prefix)
		if err != nil {
			return yield(analytics.Event{}, err)
		}
		for _, s := range found {
			for e, err := range ReadSegment(segmentPath(dir, prefix, s.number)) {
				if errors.Is(err, os.ErrNotExist) {
					break // dropped since it was listed
				}
				if !yield(e, err) {
					return false
				}
			}
		}
	}
	return true
}

// ReadSegment yields the events of one segment in the order they were appended. A bad line gives an error that wraps
// ErrTorn or ErrCorrupt, and reading goes on after it; any other error ends it.
func ReadSegment(path string) iter.Seq2[analytics.Event, error] {
	return func(yield func(analytics.Event, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(analytics.Event{}, fmt.Errorf("cannot read events: %w", err))
			return
		}
		defer file.Close()
		lines := bufio.NewReaderSize(file, 64<<10)
		for number := 1; ; number++ {
			line, err := lines.ReadBytes('\n')
			switch {
			case errors.Is(err, io.EOF) && len(line) == 0:
				return
			case errors.Is(err, io.EOF):
				yield(analytics.Event{}, fmt.Errorf("%s:%d: %w", path, number, ErrTorn))
				return
			case err != nil:
				yield(analytics.Event{}, fmt.Errorf("cannot read events: %w", err))
				return
			}
			e, err := parseLine(line[:len(line)-1])
			if err != nil {
				err = fmt.Errorf("%s:%d: %w", path, number, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
