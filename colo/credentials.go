package colo

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"colonnade/fleet"
	"colonnade/forwarding/reload"
	"colonnade/forwarding/transport"
)

// credentials reads the keys that endpoints require. Documents say only where a key is: env:NAME or file:PATH.
type credentials struct {
	logger *slog.Logger

	mu    sync.Mutex // guards the field below; not held while a file is read
	files map[string]*reload.Files[string]
}

func newCredentials(logger *slog.Logger) *credentials {
	return &credentials{logger: logger, files: map[string]*reload.Files[string]{}}
}

// fields returns the Authorization header for e, or no field if e requires none.
func (c *credentials) fields(e *fleet.Endpoint) ([]transport.Field, error) {
	if e.Credential == "" {
		return nil, nil
	}
	key, err := c.read(e.Credential)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", e.ID, err)
	}
	return []transport.Field{{Name: "Authorization", Value: "Bearer " + key}}, nil
}

// read returns the key that source names. A file is read again when it has changed; one that stalls delays a request only a
// moment, and fails it only if the file has never been read.
func (c *credentials) read(source string) (string, error) {
	if name, ok := strings.CutPrefix(source, "env:"); ok {
		key := strings.TrimSpace(os.Getenv(name))
		if key == "" {
			return "", fmt.Errorf("credential %s: the environment variable is not set", source)
		}
		return key, nil
	}
	path, ok := strings.CutPrefix(source, "file:")
	if !ok {
		return "", errors.New("credential must be env:NAME or file:PATH")
	}
	return c.file(path).Get()
}

func (c *credentials) file(path string) *reload.Files[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.files[path]
	if !ok {
		f = reload.New(reload.Source[string]{Name: "credential file " + path, Paths: []string{path}, Logger: c.logger,
			Parse: func(contents [][]byte, _ *reload.Version[string]) (string, error) {
				key := strings.TrimSpace(string(contents[0]))
				if key == "" {
					return "", fmt.Errorf("credential file %s is empty", path)
				}
				return key, nil
			},
		})
		c.files[path] = f
	}
	return f
}
