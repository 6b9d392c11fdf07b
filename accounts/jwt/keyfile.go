package jwt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/internal/atomicfile"
)

// maxFileAge bounds the age of a key set that is read from the file: an issuer may have withdrawn a key since.
const maxFileAge = 24 * time.Hour

// keyFile keeps the last good key sets across restarts. It is safe for concurrent use.
type keyFile struct {
	path string // empty = nothing is kept

	mu   sync.Mutex          // guards the field below, and the file
	sets map[string]keptKeys // by name of the issuer
}

// keptKeys is a key set as it was fetched, and where from.
type keptKeys struct {
	Issuer  string    `json:"issuer"`
	JWKS    string    `json:"jwks,omitempty"`
	Fetched time.Time `json:"fetched"`
	Text    []byte    `json:"text"`
}

// openKeyFile reads the file. It returns a usable keyFile, without key sets, also with an error.
func openKeyFile(path string) (*keyFile, error) {
	f := &keyFile{path: path, sets: map[string]keptKeys{}}
	if path == "" {
		return f, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &f.sets)
	}
	if err != nil {
		f.sets = map[string]keptKeys{}
		return f, fmt.Errorf("cannot read the kept keys of issuers in %s: %w", path, err)
	}
	return f, nil
}

// find returns the key set of an issuer, unless it is too old or from elsewhere.
func (f *keyFile) find(i *fleet.Issuer, now time.Time) (keptKeys, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, found := f.sets[i.Name]
	age := now.Sub(kept.Fetched)
	return kept, found && kept.Issuer == i.Issuer && kept.JWKS == i.JWKS && age < maxFileAge && age > -leeway
}

// put keeps the key set that was fetched now, and forgets those that are too old.
func (f *keyFile) put(i *fleet.Issuer, text []byte, now time.Time) error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, kept := range f.sets {
		if now.Sub(kept.Fetched) >= maxFileAge {
			delete(f.sets, name)
		}
	}
	f.sets[i.Name] = keptKeys{i.Issuer, i.JWKS, now, text}
	content, err := json.Marshal(f.sets)
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path, content, 0o600)
}
