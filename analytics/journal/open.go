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

// Bounds that hold where LogConfig leaves them out.
const (
	DefaultSegmentBytes = 16 << 20
	DefaultMaxBytes     = 1 << 30
	leastSegments       = 4 // that MaxBytes has room for
)

// ErrInUse says that another process, or another Log of this one, writes the events of this node.
var ErrInUse = errors.New("events of this node are being written by another process")

// LogConfig says where a node's events go.
type Config struct {
	Dir          string // events go to DIR/events/NODE; empty: they are counted and not kept
	Node         string
	SegmentBytes int64 // 0 = DefaultSegmentBytes
	MaxBytes     int64 // of all segments of the node; 0 = DefaultMaxBytes; at least four segments
	Logger       *slog.Logger
}

// OpenLog opens the log of one node and ends what an earlier run left open, as crashed.
func Open(c Config) (*Log, error) {
	l := &Log{node: c.Node, logger: c.Logger, open: map[string]openBegin{}}
	l.encoders.New = func() any { return newLineEncoder() }
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if c.Dir == "" {
		return l, nil
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = DefaultSegmentBytes
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.SegmentBytes < 0 || c.MaxBytes/leastSegments < c.SegmentBytes {
		return nil, fmt.Errorf("cannot open events: MaxBytes is %d, must be at least %d times SegmentBytes, which is %d",
			c.MaxBytes, leastSegments, c.SegmentBytes)
	}
	if c.Node == "" || c.Node == "." || c.Node == ".." {
		return nil, fmt.Errorf("cannot open events: Node is %q, must be a node's name", c.Node)
	}
	l.maxBytes = c.MaxBytes
	l.dir = nodeDir(c.Dir, c.Node)
	if err := l.openDir(c.SegmentBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open events in %s: %w", l.dir, err), l.unlock())
	}
	return l, nil
}

// nodeDir is where a node's segments stand. A name may hold a slash.
func nodeDir(dir, node string) string { return filepath.Join(dir, "events", url.PathEscape(node)) }

func (l *Log) openDir(segmentBytes int64) error {
	if err := os.MkdirAll(l.dir, 0o750); err != nil {
		return err
	}
	var err error
	if l.lock, err = os.OpenFile(filepath.Join(l.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o640); err != nil {
		return err
	}
	// The kernel gives it back when the process dies, however it dies.
	if err := syscall.Flock(int(l.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if l.bills, err = openSegments(l.dir, billsPrefix, segmentBytes); err != nil {
		return err
	}
	if l.refused, err = openSegments(l.dir, refusedPrefix, segmentBytes); err != nil {
		return err
	}
	// Half as large, for there are two of them when one takes the place of the other.
	if l.journal, err = openSegments(l.dir, journalPrefix, segmentBytes/2); err != nil {
		return err
	}
	return l.endEarlierRun()
}

func (l *Log) unlock() error {
	if l.lock == nil {
		return nil
	}
	return l.lock.Close()
}
