package acmecert

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"colonnade/internal/atomicfile"
)

// accountKey is the key under which an [autocert.Manager] keeps the key of its account.
const accountKey = "acme_account+key"

// store is the cache of an [autocert.Manager]. It keeps the account key and the certificates of the names in files. It drops all else, which
// are the answers to challenges: the manager has them in memory, and no name or token that a client sends reaches the file system. A
// certificate that is put into it is in force from then on.
type store struct {
	dir     string
	logger  *slog.Logger
	inForce map[string]*atomic.Pointer[tls.Certificate] // by name; all names are there from the start
	renewed func(name string)                           // called after a new certificate was put in force
}

// openStore puts the certificates of an earlier process in force.
func openStore(dir string, names []string, renewed func(name string), logger *slog.Logger) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of certificates (flag -data-dir): %w", err)
	}
	s := &store{dir: dir, logger: logger, inForce: map[string]*atomic.Pointer[tls.Certificate]{}, renewed: renewed}
	for _, name := range names {
		s.inForce[name] = &atomic.Pointer[tls.Certificate]{}
		if err := s.load(name); err != nil {
			logger.Warn("a certificate of an earlier start has expired or cannot be read; a new one is requested", "name", name, "file", s.path(name), "error", err)
		}
	}
	return s, nil
}

// load puts the certificate in a name's file in force, also an expired one: clients can report that better than a failed handshake.
func (s *store) load(name string) error {
	data, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	certificate, err := parseCertificate(name, data)
	if err != nil {
		return err
	}
	s.inForce[name].Store(certificate)
	if expires := certificate.Leaf.NotAfter; time.Now().After(expires) {
		return fmt.Errorf("it expired at %s", expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// current returns the certificate in force for a name, or nil.
func (s *store) current(name string) *tls.Certificate {
	if pointer := s.inForce[name]; pointer != nil {
		return pointer.Load()
	}
	return nil
}

// Get returns what was put under a key. A file that is damaged or cannot be read counts as missing, so that it is replaced.
func (s *store) Get(_ context.Context, key string) ([]byte, error) {
	if !s.inFile(key) {
		return nil, autocert.ErrCacheMiss
	}
	data, err := os.ReadFile(s.path(key))
	if err != nil || s.damaged(key, data) {
		return nil, autocert.ErrCacheMiss
	}
	return data, nil
}

// Put writes a file, and puts a certificate in force. If the file cannot be written, Put only logs that: with an error, the manager
// would have another certificate made, although the authority issues only a few.
func (s *store) Put(_ context.Context, key string, data []byte) error {
	if !s.inFile(key) {
		return nil
	}
	if err := atomicfile.Write(s.path(key), data, 0o600); err != nil {
		s.logger.Error("cannot keep what a certificate needs: it is lost at the next start, and requested again", "file", s.path(key), "error", err)
	}
	pointer := s.inForce[key]
	if pointer == nil {
		return nil
	}
	certificate, err := parseCertificate(key, data)
	if err != nil {
		return err
	}
	pointer.Store(certificate)
	s.logger.Info("certificate in force", "name", key, "expires", certificate.Leaf.NotAfter.UTC())
	s.renewed(key)
	return nil
}

// Delete has nothing to do: only answers to challenges are deleted.
func (s *store) Delete(context.Context, string) error { return nil }

func (s *store) inFile(key string) bool { return key == accountKey || s.inForce[key] != nil }

func (s *store) path(key string) string { return filepath.Join(s.dir, key+".pem") }

func (s *store) damaged(key string, data []byte) bool {
	if key == accountKey {
		block, _ := pem.Decode(data)
		return block == nil
	}
	_, err := parseCertificate(key, data)
	return err != nil
}

// parseCertificate reads a key and a certificate with its chain, which must be for a name.
func parseCertificate(name string, data []byte) (*tls.Certificate, error) {
	certificate, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, err
	}
	return &certificate, certificate.Leaf.VerifyHostname(name)
}
