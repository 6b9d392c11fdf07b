package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// finalPrefixes are those of the segments that have final events.
var finalPrefixes = []string{billingPrefix, requestsPrefix, refusalsPrefix}

// nodeLog is the segments of one node and one kind, oldest first.
type nodeLog struct {
	dir, prefix string
	segments    []segment
}

func (l nodeLog) key() string { return l.dir + "/" + l.prefix }

func (l nodeLog) path(s segment) string { return segmentPath(l.dir, l.prefix, s.number) }

// listLogs returns the segments of every node that logs under dir, or of one node.
func listLogs(dir, node string, prefixes []string) ([]nodeLog, error) {
	events := filepath.Join(dir, "events")
	nodes := []string{nodeDir(dir, node)}
	if node == "" {
		entries, err := os.ReadDir(events)
		if err != nil {
			return nil, fmt.Errorf("cannot read events: %w", err)
		}
		nodes = nodes[:0]
		for _, entry := range entries {
			if entry.IsDir() {
				nodes = append(nodes, filepath.Join(events, entry.Name()))
			}
		}
	}
	var logs []nodeLog
	for _, node := range nodes {
		for _, prefix := range prefixes {
			l := nodeLog{dir: node, prefix: prefix}
			var err error
			if l.segments, err = listSegments(l.dir, prefix); err != nil {
				return nil, err
			}
			logs = append(logs, l)
		}
	}
	return logs, nil
}

// indexSince returns the index of the first segment that may have events since a time, all older ones being left out.
func (l nodeLog) indexSince(since time.Time) int {
	if since.IsZero() {
		return 0
	}
	for i := len(l.segments) - 1; i > 0; i-- {
		if first, known := l.firstTime(i); known && first.Before(since) {
			return i
		}
	}
	return 0
}

// indexUntil returns the number of segments that may have events until a time. Begins have no final events, so that all are read.
func (l nodeLog) indexUntil(until time.Time) int {
	n := len(l.segments)
	for n > 0 {
		if first, known := l.firstTime(n - 1); !known || first.Before(until) {
			return n
		}
		n--
	}
	return n
}

// firstTime returns the time of the first final event of a segment that was written at its time, and false if there is none or it cannot be
// read. Carried begins are older, and so are incidents of engines.
func (l nodeLog) firstTime(i int) (time.Time, bool) {
	var offset int64
	for body, err := range readLines(l.path(l.segments[i]), &offset, readOptions{grows: true}) {
		if err == nil && isFinal(body) && !bytes.Contains(body, ofEngine) {
			return TimeOf(body), true
		}
	}
	return time.Time{}, false
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
	if _, err = file.ReadAt(before[:], offset-1); err != nil {
		return !errors.Is(err, io.EOF)
	}
	return before[0] == '\n'
}

// Nodes returns the nodes that log under dir (Config.Dir).
func Nodes(dir string) (nodes []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, "events"))
	if err != nil {
		return nil, fmt.Errorf("cannot read events: %w", err)
	}
	for _, entry := range entries {
		if name, err := url.PathUnescape(entry.Name()); err == nil && entry.IsDir() {
			nodes = append(nodes, name)
		}
	}
	return nodes, nil
}
