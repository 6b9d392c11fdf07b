package ship

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"colonnade/analytics/journal"
	"colonnade/internal/atomicfile"
)

// ErrInUse reports that another process ships the events of the node to a sink of that name.
var ErrInUse = errors.New("another process ships the events of this node under this name; give one of the sinks another name")

const (
	// syncInterval is how often the position is made to survive a loss of power. After one, what was sent since comes again.
	syncInterval = time.Second
	// bootIDFile has an id that Linux makes anew when the machine starts.
	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

// place keeps the position of a sink in DIR/ship/NODE/NAME.json, and the lock of its only shipper beside it.
type place struct {
	path string
	lock *os.File
	boot string       // id of this run of the machine; empty = unknown
	sync func() error // makes the events that were sent survive a loss of power

	durable journal.Cursor // what survives a loss of power
	synced  time.Time      // when that was tried last
	recent  bool           // the position that was saved last is not durable
	lost    error          // of sync: events behind durable may be lost
}

// kept is the content of the file. The kernel may write any version of it to the disk, also before the events that were sent: the position
// that a loss of power must not leave too far ahead stands apart from the one that is only for the process.
type kept struct {
	Version int             `json:"version"`
	Cursor  journal.Cursor  `json:"cursor"`           // events before it survive a loss of power
	Boot    string          `json:"boot,omitempty"`   // run of the machine in which Recent counts
	Recent  *journal.Cursor `json:"recent,omitempty"` // events before it were sent
}

const placeVersion = 1

// openPlace locks the position of a sink and reads it; nil if there is none yet.
func openPlace(dir, node, name string, to Sink) (*place, *journal.Cursor, error) {
	below := filepath.Join(dir, "ship", url.PathEscape(node))
	if err := os.MkdirAll(below, 0o750); err != nil {
		return nil, nil, err
	}
	lock, err := os.OpenFile(filepath.Join(below, name+".lock"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("%w (%w)", ErrInUse, err)
	}
	p := &place{path: filepath.Join(below, name+".json"), lock: lock, boot: bootID(), sync: to.Sync}
	at, err := p.read()
	if err != nil {
		_ = lock.Close()
	}
	return p, at, err
}

// read returns the position; nil if there is none, or if the machine has lost power before the first was on the disk.
func (p *place) read() (*journal.Cursor, error) {
	text, err := os.ReadFile(p.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return nil, nil //nolint:nilnil // nothing was sent yet
	}
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it to send all kept events again", p.path, err)
	}
	if k.Version != placeVersion {
		return nil, fmt.Errorf("%s is of version %d, and this program knows version %d; remove it to send all kept events again", p.path, k.Version, placeVersion)
	}
	p.durable = k.Cursor
	if k.Recent != nil && k.Boot != "" && k.Boot == p.boot {
		return k.Recent, nil
	}
	return &k.Cursor, nil
}

// save keeps a position so that it survives the process, and once a second so that it survives the machine.
func (p *place) save(at journal.Cursor, sync bool) error {
	if p.lost != nil {
		return p.lost
	}
	if sync || p.isDue() {
		return p.saveDurably(at)
	}
	p.recent = true
	text, err := json.Marshal(kept{Version: placeVersion, Cursor: p.durable, Boot: p.boot, Recent: &at})
	if err != nil {
		return err
	}
	// A rename without a flush: the kernel has both the content and the name.
	temporary := p.path + ".new"
	if err := os.WriteFile(temporary, text, 0o640); err != nil {
		return err
	}
	return os.Rename(temporary, p.path)
}

// isDue reports whether the last durable position is older than it may be.
func (p *place) isDue() bool { return time.Since(p.synced) > syncInterval }

// saveDurably flushes the events, and then the position behind them. One flush a second is for all batches of that second, so its time does
// not depend on how small they are: of 50 000 events it is that of some 25 MB.
func (p *place) saveDurably(at journal.Cursor) error {
	p.synced = time.Now()
	if err := p.sync(); err != nil {
		p.lost = err
		return errors.Join(err, p.write(p.durable)) // the next process sends again what may be lost
	}
	err := p.write(at)
	if err == nil {
		p.durable, p.recent = at, false
	}
	return err
}

// write writes a position that survives a loss of power.
func (p *place) write(at journal.Cursor) error {
	text, err := json.Marshal(kept{Version: placeVersion, Cursor: at})
	if err == nil {
		err = atomicfile.Write(p.path, text, 0o640)
	}
	return err
}

// bootID returns the id of this run of the machine; empty if it has none. Without one, a process that was killed repeats up to a second.
func bootID() string {
	text, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (p *place) close() error { return p.lock.Close() }
