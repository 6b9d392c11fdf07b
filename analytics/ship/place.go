package ship

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"colonnade/analytics/journal"
	"colonnade/internal/atomicfile"
)

// ErrInUse reports that another process ships the events of the node to a sink of that name.
var ErrInUse = errors.New("another process ships the events of this node under this name; give one of the sinks another name")

// syncInterval is how often the position is made to survive a loss of power. After one, what was sent since comes again.
const syncInterval = time.Second

// place keeps the position of a sink in DIR/ship/NODE/NAME.json, and the lock of its only shipper beside it. That position is behind events that
// survive a loss of power. The one behind the last batch is in NAME.recent, and counts until the machine stops. It is never older than the other.
type place struct {
	path   string
	lock   *os.File
	recent recentPlace
	sync   func() error // makes the events that were sent survive a loss of power

	durable journal.Cursor // what survives a loss of power
	synced  time.Time      // when that was tried last
	behind  bool           // durable is not the last position
	lost    error          // of sync: events behind durable may be lost
}

// kept is the content of NAME.json.
type kept struct {
	Version int            `json:"version"`
	Cursor  journal.Cursor `json:"cursor"` // events before it survive a loss of power
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
	p := &place{path: filepath.Join(below, name+".json"), lock: lock, sync: to.Sync}
	p.recent = recentPlace{path: filepath.Join(below, name+".recent"), boot: bootID()}
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
	if at := p.recent.read(); at != nil {
		return at, nil
	}
	return &k.Cursor, nil
}

// save keeps a position so that it survives the process, and once a second so that it survives the machine.
func (p *place) save(at journal.Cursor, sync bool) error {
	if p.lost != nil {
		return p.lost
	}
	p.behind = true
	if sync || p.isDue() {
		return p.saveDurably(at)
	}
	return p.recent.write(at)
}

// isDue reports whether the last durable position is older than it may be.
func (p *place) isDue() bool { return time.Since(p.synced) > syncInterval }

// saveDurably flushes the events, and then the position behind them. One flush a second is for all batches of that second, so its time does
// not depend on how small they are: of 50 000 events it is that of some 25 MB.
func (p *place) saveDurably(at journal.Cursor) error {
	p.synced = time.Now()
	if err := p.sync(); err != nil {
		p.lost = err
		return errors.Join(err, p.recent.remove()) // the next process sends again what may be lost
	}
	err := p.recent.write(at)
	if err == nil {
		err = p.write(at)
	}
	if err != nil {
		return errors.Join(err, p.recent.close()) // its directory may have been removed
	}
	p.durable, p.behind = at, false
	return nil
}

// write writes a position that survives a loss of power.
func (p *place) write(at journal.Cursor) error {
	text, err := json.Marshal(kept{Version: placeVersion, Cursor: at})
	if err == nil {
		err = atomicfile.Write(p.path, text, 0o640)
	}
	return err
}

func (p *place) close() error { return errors.Join(p.recent.close(), p.lock.Close()) }
