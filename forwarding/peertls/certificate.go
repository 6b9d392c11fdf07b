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

// CertificateFiles are the files of a certificate, with what it needs of a chain behind it, and of its key: both PEM.
type CertificateFiles struct{ Cert, Key string }

// Certificate is a certificate and its key, which are read again when their files change.
type Certificate struct {
	files reload.Files[*tls.Certificate]
}

// LoadCertificate reads a certificate. what names it in errors and logs, with the settings that name its files.
func LoadCertificate(what string, f CertificateFiles, logger *slog.Logger) (*Certificate, error) {
	return loadCertificate(what, f, logger, func(*tls.Certificate) error { return nil })
}

// loadCertificate is LoadCertificate with a further condition.
func loadCertificate(what string, f CertificateFiles, logger *slog.Logger, fits func(*tls.Certificate) error) (*Certificate, error) {
	c := &Certificate{}
	c.files.What, c.files.Paths, c.files.Logger = what, []string{f.Cert, f.Key}, logger
	c.files.Parse = func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err == nil {
			err = c.notExpired(&pair, logger)
		}
		if err == nil {
			err = fits(&pair)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot use %s (%s and %s): %w", what, f.Cert, f.Key, err)
		}
		return &pair, nil
	}
	if err := c.files.Load(); err != nil {
		return nil, err
	}
	return c, nil
}

// notExpired refuses to replace a good certificate by one that has expired. At a start there is none to go on with.
func (c *Certificate) notExpired(pair *tls.Certificate, logger *slog.Logger) error {
	now := time.Now()
	if now.Before(pair.Leaf.NotAfter) {
		return nil
	}
	if old := c.files.InForce.Load(); old != nil && now.Before(old.Value.Leaf.NotAfter) {
		return fmt.Errorf("it has expired: it was good until %s", pair.Leaf.NotAfter.UTC().Format(timeFormat))
	}
	logger.Warn(c.files.What+" has expired: others will refuse it; replace the files",
		"file", c.files.Paths[0], "since", pair.Leaf.NotAfter)
	return nil
}

// Expires is when the certificate in force does.
func (c *Certificate) Expires() time.Time { return c.files.Now().Value.Leaf.NotAfter }

// Validity is from when until when the certificate in force is.
func (c *Certificate) Validity() (begins, expires time.Time) {
	leaf := c.files.Now().Value.Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// ServerTLS is how a server speaks that lets anybody in: TLS 1.2 at least, and HTTP/1.1 only.
func (c *Certificate) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{ALPN},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.files.Now().Value, nil },
	}
}

// ALPN is the only protocol that is spoken over TLS.
const ALPN = "http/1.1"

// roots are certificates of authorities, which are read again when their file changes.
type roots struct {
	files reload.Files[*x509.CertPool]
}

func loadRoots(what, path string, logger *slog.Logger) (*roots, error) {
	a := &roots{files: reload.Files[*x509.CertPool]{
		What: what, Paths: []string{path}, Logger: logger,
		Parse: func(contents [][]byte) (*x509.CertPool, error) {
			pool, err := parseRoots(contents[0])
			if err != nil {
				return nil, fmt.Errorf("cannot use %s (%s): %w", what, path, err)
			}
			return pool, nil
		},
	}}
	if err := a.files.Load(); err != nil {
		return nil, err
	}
	return a, nil
}

// parseRoots reads every certificate in a file, or says which is bad: to believe only the others would show when
// nodes whose certificates it has issued come.
func parseRoots(text []byte) (*x509.CertPool, error) {
	pool, read := x509.NewCertPool(), 0
	for rest := text; ; read++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("part %d is no certificate, but: %s", read+1, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", read+1, err)
		}
		pool.AddCert(c)
	}
	switch begun := bytes.Count(text, []byte("-----BEGIN ")); {
	case begun == 0:
		return nil, errors.New("there is no certificate in it, as PEM")
	case read < begun:
		return nil, fmt.Errorf("only %d of %d parts can be read: the others are damaged", read, begun)
	}
	return pool, nil
}
