package ship

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"colonnade/analytics/journal"
)

const (
	// bootIDFile has an id that Linux makes anew when the machine starts.
	bootIDFile = "/proc/sys/kernel/random/boot_id"
	// recentBytes is the length of the file: a write that is always as long, and within a page, leaves no part of another one.
	recentBytes = 1024
)

// recentPlace is a file with a position that survives the process, and not a loss of power. It is written for each batch, so it is written in
// place: a new file for each would cost a sixth of all that shipping costs.
type recentPlace struct {
	path string
	boot string   // id of this run of the machine; empty = unknown: nothing is written then, and a process that was killed repeats up to a second
	file *os.File // nil = not open
}

// recentText is the content of the file.
type recentText struct {
	Boot   string         `json:"boot"`   // run of the machine in which Cursor counts
	Cursor journal.Cursor `json:"cursor"` // events before it were sent
}

// read returns the position; nil if there is none of this run of the machine.
func (r *recentPlace) read() *journal.Cursor {
	text, err := os.ReadFile(r.path)
	var t recentText
	if err != nil || json.Unmarshal(text, &t) != nil || t.Boot == "" || t.Boot != r.boot {
		return nil
	}
	return &t.Cursor
}

// write replaces the position. After an error there is none, as far as the file can be removed.
func (r *recentPlace) write(at journal.Cursor) error {
	if r.boot == "" {
		return nil
	}
	text, err := json.Marshal(recentText{r.boot, at})
	if err == nil && r.file == nil {
		r.file, err = os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o640)
	}
	if err == nil {
		_, err = r.file.WriteAt(fmt.Appendf(nil, "%-*s\n", recentBytes-1, text), 0)
	}
	if err != nil {
		return errors.Join(err, r.remove())
	}
	return nil
}

func (r *recentPlace) remove() error {
	err := os.Remove(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, r.close())
}

func (r *recentPlace) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// bootID returns the id of this run of the machine; empty if it has none.
func bootID() string {
	text, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
