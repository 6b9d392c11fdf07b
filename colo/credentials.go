package colo

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/transport"
)

// credentialAge is how long a credential is kept before its file is read again.
const credentialAge = 10 * time.Second

// credentials reads what endpoints want for authorization. The documents only say where it is.
type credentials struct {
	mu    sync.Mutex // guards the field below
	known map[string]credential
}

type credential struct {
	value string
	read  time.Time
}

func newCredentials() *credentials { return &credentials{known: map[string]credential{}} }

// fields returns the Authorization header for e, if it wants one.
func (c *credentials) fields(e *fleet.Endpoint) ([]transport.Field, error) {
	if e.Credential == "" {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.known[e.Credential]
	if !ok || time.Since(known.read) > credentialAge {
		value, err := readCredential(e.Credential)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.ID, err)
		}
		known = credential{value: value, read: time.Now()}
		c.known[e.Credential] = known
	}
	return []transport.Field{{Name: "Authorization", Value: "Bearer " + known.value}}, nil
}

// readCredential follows env:NAME or file:PATH.
func readCredential(source string) (string, error) {
	if name, ok := strings.CutPrefix(source, "env:"); ok {
		value := strings.TrimSpace(os.Getenv(name))
		if value == "" {
			return "", fmt.Errorf("credential %s: the environment variable is not set", source)
		}
		return value, nil
	}
	path, ok := strings.CutPrefix(source, "file:")
	if !ok {
		return "", fmt.Errorf("credential must be env:NAME or file:PATH")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("credential %s: %w", source, err)
	}
	value := strings.TrimSpace(string(data))
	if value == "" {
		return "", fmt.Errorf("credential %s: the file is empty", source)
	}
	return value, nil
}
