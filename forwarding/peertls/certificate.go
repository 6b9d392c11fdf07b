package peertls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"colonnade/forwarding/reload"
)

// CertificateFiles are the PEM files of a certificate, followed by its intermediates, and of its key.
type CertificateFiles struct{ Cert, Key string }

// Certificate is a certificate with its key. Its files are read again when they have changed.
type Certificate struct {
	files *reload.Files[*tls.Certificate]
}

// certificateSource is where a certificate is, and what it must fulfil besides being valid.
type certificateSource struct {
	name   string // in errors and log lines, with the settings that name the files
	files  CertificateFiles
	logger *slog.Logger
	check  func(pair, current *tls.Certificate) error // current: the one in force, nil at the start
}

// LoadCertificate reads a certificate. name is what errors and log lines call it, with the settings that name its files.
func LoadCertificate(name string, f CertificateFiles, logger *slog.Logger) (*Certificate, error) {
	return certificateSource{name: name, files: f, logger: logger, check: func(_, _ *tls.Certificate) error { return nil }}.load()
}

func (s certificateSource) load() (*Certificate, error) {
	files, err := reload.Open(reload.Source[*tls.Certificate]{
		Name: s.name, Paths: []string{s.files.Cert, s.files.Key}, Logger: s.logger,
		Parse: func(contents [][]byte, current *reload.Version[*tls.Certificate]) (*tls.Certificate, error) {
			var old *tls.Certificate
			if current != nil {
				old = current.Value
			}
			pair, err := s.parse(contents, old)
			if err != nil {
				return nil, fmt.Errorf("cannot use %s (%s and %s): %w", s.name, s.files.Cert, s.files.Key, err)
			}
			return pair, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &Certificate{files: files}, nil
}

func (s certificateSource) parse(contents [][]byte, current *tls.Certificate) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	if err := s.checkExpiry(&pair, current); err != nil {
		return nil, err
	}
	return &pair, s.check(&pair, current)
}

// checkExpiry refuses to replace a valid certificate by an expired one. At the start there is no valid one to keep, so an expired
// one is only logged.
func (s certificateSource) checkExpiry(pair, current *tls.Certificate) error {
	now := time.Now()
	if now.Before(pair.Leaf.NotAfter) {
		return nil
	}
	if current != nil && now.Before(current.Leaf.NotAfter) {
		return fmt.Errorf("it has expired: it was valid until %s", pair.Leaf.NotAfter.UTC().Format(timeFormat))
	}
	s.logger.Warn("certificate has expired, and others will refuse it; replace the files", "what", s.name, "file", s.files.Cert,
		"expired", pair.Leaf.NotAfter)
	return nil
}

func (c *Certificate) current() *tls.Certificate { return c.files.Current().Value }

// Expires returns when the certificate in force expires.
func (c *Certificate) Expires() time.Time { return c.current().Leaf.NotAfter }

// Validity returns from when until when the certificate in force is valid.
func (c *Certificate) Validity() (begins, expires time.Time) {
	leaf := c.current().Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// ServerTLS returns the configuration of a listener for any client: TLS 1.2 or later, HTTP/1.1 only.
func (c *Certificate) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{ALPN},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
}

// ALPN is the only application protocol over TLS.
const ALPN = "http/1.1"

// loadRoots reads the certificates of the authorities in a file, which is read again when it has changed.
func loadRoots(path string, logger *slog.Logger) (*reload.Files[*x509.CertPool], error) {
	return reload.Open(reload.Source[*x509.CertPool]{
		Name: rootsName, Paths: []string{path}, Logger: logger,
		Parse: func(contents [][]byte, _ *reload.Version[*x509.CertPool]) (*x509.CertPool, error) {
			pool, err := parseRoots(contents[0])
			if err != nil {
				return nil, fmt.Errorf("cannot use %s (%s): %w", rootsName, path, err)
			}
			return pool, nil
		},
	})
}

// parseRoots parses all certificates of a file. A damaged one is an error: a pool without it would refuse nodes later, far from the
// cause.
func parseRoots(text []byte) (*x509.CertPool, error) {
	pool, read := x509.NewCertPool(), 0
	for rest := text; ; read++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("part %d is not a certificate but %q", read+1, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("cannot parse certificate %d: %w", read+1, err)
		}
		pool.AddCert(c)
	}
	switch begun := bytes.Count(text, []byte("-----BEGIN ")); {
	case begun == 0:
		return nil, errors.New("it contains no certificate in PEM")
	case read < begun:
		return nil, fmt.Errorf("only %d of %d parts can be parsed: the others are damaged", read, begun)
	}
	return pool, nil
}
