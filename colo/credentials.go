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
	"colonnade/internal/ascii"
)

// maxCredentialSize bounds a credential file, in bytes. It leaves room for a long JSON Web Token.
const maxCredentialSize = 16 << 10

// bearer begins the value of the Authorization header.
const bearer = "Bearer "

// errNoCredentialsDir is returned for file:PATH by a server without a directory for credentials.
var errNoCredentialsDir = errors.New("this server has no -credentials-dir")

// credentialError says that an endpoint's credential cannot be sent.
type credentialError struct {
	source string // as in the endpoint's document
	err    error
}

func (e *credentialError) Error() string {
	return fmt.Sprintf("cannot use credential %s: %s", e.source, e.err)
}

func (e *credentialError) Unwrap() error { return e.err }

// credentials reads the keys that endpoints require. Documents say only where a key is: env:NAME or file:PATH. A writer of
// documents also chooses to which URL the key goes, so no other files and variables are read than those meant for that.
type credentials struct {
	logger   *slog.Logger
	readFile func(path string) ([]byte, error) // below the directory for credentials

	mu    sync.Mutex // guards the field below; not held while a file is read
	files map[string]*reload.Files[string]
}

// newCredentials returns the credentials in the files below dir, except the node's own files; without dir, in no file.
func newCredentials(dir string, ownFiles []string, logger *slog.Logger) *credentials {
	c := &credentials{logger: logger, files: map[string]*reload.Files[string]{}}
	if dir == "" {
		c.readFile = func(string) ([]byte, error) { return nil, errNoCredentialsDir }
	} else {
		c.readFile = (&reload.Dir{Path: dir, Never: ownFiles, MaxSize: maxCredentialSize}).Read
	}
	return c
}

// appendFields appends the Authorization header for e, or no field if e requires none. The error is a *credentialError.
func (c *credentials) appendFields(dst []transport.Field, e *fleet.Endpoint) ([]transport.Field, error) {
	if e.Credential == "" {
		return dst, nil
	}
	key, err := c.read(e.Credential)
	if err != nil {
		return dst, &credentialError{source: e.Credential, err: err}
	}
	return append(dst, transport.Field{Name: "Authorization", Value: bearer + key}), nil
}

// read returns the key that source names. A file is read again when it has changed; one that stalls delays a request only a
// moment, and fails it only if the file has never been read.
func (c *credentials) read(source string) (string, error) {
	kind, name, _ := strings.Cut(source, ":")
	switch {
	case kind == "env" && strings.HasPrefix(name, fleet.CredentialVariablePrefix):
		value, set := os.LookupEnv(name)
		if !set {
			return "", errors.New("the environment variable is not set")
		}
		return parseCredential(value)
	case kind == "file":
		return c.file(name).Get()
	}
	return "", errors.New("it must be env:" + fleet.CredentialVariablePrefix + "NAME or file:PATH")
}

func (c *credentials) file(path string) *reload.Files[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.files[path]
	if !ok {
		f = reload.New(reload.Source[string]{Name: "credential file " + path, Paths: []string{path}, Read: c.readFile, Logger: c.logger,
			Parse: func(contents [][]byte, _ *reload.Version[string]) (string, error) {
				return parseCredential(string(contents[0]))
			},
		})
		c.files[path] = f
	}
	return f
}

// retain forgets the files that no endpoint names any more.
func (c *credentials) retain(endpoints []*fleet.Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.files) == 0 {
		return
	}
	named := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		named[e.Credential] = true
	}
	for path := range c.files {
		if !named["file:"+path] {
			delete(c.files, path)
		}
	}
}

// parseCredential returns the key in a text, which may end with a newline. The errors do not repeat the text.
func parseCredential(text string) (string, error) {
	key := strings.TrimSpace(text)
	switch lines := strings.Count(key, "\n") + 1; {
	case key == "":
		return "", errors.New("it is empty")
	case lines > 1:
		return "", fmt.Errorf("it has %d lines, and a credential is one line", lines)
	case ascii.HasControl([]byte(key)):
		return "", errors.New("it has a control character, which no header may have")
	}
	return key, nil
}
