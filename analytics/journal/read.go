package journal

import (
	"errors"
	"fmt"
	"iter"
	"os"

	"colonnade/analytics"
)

// ReadDir yields the events of every node that logs under dir (Config.Dir): node by node, first inferences, then
// requests, then refusals, each oldest first, without begins of requests. A bad line yields an error that wraps ErrTorn or
// ErrCorrupt, and reading continues after it. A begin that outlived segments comes once for each; see the package's
// documentation.
func ReadDir(dir string) iter.Seq2[analytics.Event, error] {
	return func(yield func(analytics.Event, error) bool) {
		logs, err := listLogs(dir, "", finalPrefixes)
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

// readSegment yields the events of a segment; see readLines.
func readSegment(path string, offset *int64, grows bool) iter.Seq2[analytics.Event, error] {
	return func(yield func(analytics.Event, error) bool) {
		for body, err := range readLines(path, offset, readOptions{grows: grows}) {
			var e analytics.Event
			if err == nil {
				if e, err = parseEvent(body); err != nil {
					err = fmt.Errorf("cannot read events: %s, line before byte %d: %w", path, *offset, err)
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
