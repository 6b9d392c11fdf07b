package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/internal/atomicfile"
)

// savedRegistrations is what the next process begins with, so that no client gets 404 until the workers have come back.
type savedRegistrations struct {
	Registrations []*registered   `json:"registrations"`
	Models        []unservedModel `json:"models"`
}

// load reads the registrations that the last process had, and reports whether there is a file of them. They have to be renewed as though each
// had just been.
func (g *registrations) load(now time.Time) (found bool) {
	if g.file == "" {
		return false
	}
	text, err := os.ReadFile(g.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	var saved savedRegistrations
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	if err != nil {
		g.logger.Warn("cannot read the registrations of the last process; workers register again", "file", g.file, "error", err)
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range saved.Registrations {
		if r.Endpoint.Key == "" || strings.HasPrefix(r.Endpoint.Key, fleet.KindEndpoint.Key(g.colo)+"/") { // the flag -colo may have changed
			r.renewed = now
			g.all = append(g.all, r)
		}
	}
	g.unserved = saved.Models
	g.changedLocked()
	return true
}

// saveLocked writes the file, if it lacks anything.
func (g *registrations) saveLocked() {
	if !g.unsaved || g.file == "" {
		return
	}
	if err := atomicfile.Write(g.file, encode(savedRegistrations{g.all, g.unserved}), 0o600); err != nil {
		g.logger.Warn("cannot save the registrations for the next process", "file", g.file, "error", err)
		return
	}
	g.unsaved = false
}
