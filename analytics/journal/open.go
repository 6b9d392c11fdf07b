package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

const (
	defaultSegmentBytes = 16 << 20
	defaultMaxBytes     = 1 << 30
	minSegments         = 5 // that MaxBytes has room for: a full and a growing one that bill, one of each other kind
)

// ErrInUse reports that another process, or another Log of this one, writes the events of the node.
var ErrInUse = errors.New("events of this node are being written by another process")

// Config says where the events of a node are kept.
type Config struct {
	Dir          string // events go to DIR/events/NODE; empty: they are counted and not kept
	Node         string
	SegmentBytes int64        // 0 = 16 MiB
	MaxBytes     int64        // of all segments of the node; 0 = 1 GiB; at least five segments
	Logger       *slog.Logger // nil = no log
}

// Open opens the log of one node, and ends as crashed what an earlier run of the node left open. Its error wraps ErrInUse
// if another process has the log.
func Open(c Config) (*Log, error) {
	l := &Log{node: c.Node, logger: c.Logger, open: map[string]openBegin{}}
	l.lines.New = func() any { return new(make([]byte, 0, usualLine)) }
	l.beginLines.New = func() any { return new(make([]byte, 0, usualBegin)) }
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if c.Dir == "" {
		return l, nil
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = defaultSegmentBytes
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultMaxBytes
	}
	if c.SegmentBytes < 0 || c.MaxBytes/minSegments < c.SegmentBytes {
		return nil, fmt.Errorf("cannot open events: MaxBytes is %d, must be at least %d times SegmentBytes, which is %d",
			c.MaxBytes, minSegments, c.SegmentBytes)
	}
	if c.Node == "" || c.Node == "." || c.Node == ".." {
		return nil, fmt.Errorf("cannot open events: Node is %q, must be a node's name", c.Node)
	}
	l.maxBytes = c.MaxBytes
	l.dir = nodeDir(c.Dir, c.Node)
	if err := l.openDir(c.SegmentBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open events in %s: %w", l.dir, err), l.Close())
	}
	return l, nil
}

// nodeDir returns the directory of a node's segments. The name of a node may hold a slash.
func nodeDir(dir, node string) string { return filepath.Join(dir, "events", url.PathEscape(node)) }

func (l *Log) openDir(segmentBytes int64) error {
	if err := os.MkdirAll(l.dir, 0o750); err != nil {
		return err
	}
	var err error
	if l.lock, err = os.OpenFile(filepath.Join(l.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o640); err != nil {
		return err
	}
	// The kernel releases it when the process dies, however it dies.
	if err := syscall.Flock(int(l.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err := removeUnfinished(l.dir); err != nil {
		return err
	}
	if l.billing, err = openSegments(l.dir, billingPrefix, "inferences", segmentBytes); err != nil {
		return err
	}
	if l.requests, err = openSegments(l.dir, requestsPrefix, "ends of requests", segmentBytes); err != nil {
		return err
	}
	if l.refusals, err = openSegments(l.dir, refusalsPrefix, "refusals", segmentBytes); err != nil {
		return err
	}
	// Half as large: while a new segment of begins replaces the old one, both exist.
	if l.begins, err = openSegments(l.dir, beginsPrefix, "begins of requests", segmentBytes/2); err != nil {
		return err
	}
	if err := openCounts(l.dir, &l.billing, &l.requests, &l.refusals); err != nil {
		return err
	}
	l.reserve = reserve{segmentBytes: segmentBytes}
	return l.closeEarlierRun()
}

func (l *Log) unlock() error {
	if l.lock == nil {
		return nil
	}
	return l.lock.Close()
}
