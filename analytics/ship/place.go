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

// place keeps the position of a sink in DIR/ship/NODE/NAME.json, and the lock of its only shipper beside it.
type place struct {
	path   string
	lock   *os.File
	synced time.Time
}

// kept is the content of the file.
type kept struct {
	Version int            `json:"version"`
	Cursor  journal.Cursor `json:"cursor"`
}

const placeVersion = 1

// openPlace locks the position of a sink and reads it; nil if there is none yet.
func openPlace(dir, node, name string) (*place, *journal.Cursor, error) {
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
	p := &place{path: filepath.Join(below, name+".json"), lock: lock}
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
	return &k.Cursor, nil
}

// save keeps a position so that it survives the process, and once a second so that it survives the machine.
func (p *place) save(at journal.Cursor, sync bool) error {
	text, err := json.Marshal(kept{placeVersion, at})
	if err != nil {
		return err
	}
	if now := time.Now(); sync || now.Sub(p.synced) > syncInterval {
		p.synced = now
		return atomicfile.Write(p.path, text, 0o640)
	}
	// A rename without a flush: the kernel has both the content and the name.
	temporary := p.path + ".new"
	if err := os.WriteFile(temporary, text, 0o640); err != nil {
		return err
	}
	return os.Rename(temporary, p.path)
}

func (p *place) close() error { return p.lock.Close() }
