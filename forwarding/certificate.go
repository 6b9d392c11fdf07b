package forwarding

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// CertificateFiles are the files of a certificate, with what it needs of a chain behind it, and of its key: both PEM.
type CertificateFiles struct{ Cert, Key string }

// Certificate is a certificate and its key, which are read again when their files change.
type Certificate struct {
	files reloaded[*tls.Certificate]
}

// LoadCertificate reads a certificate. what names it in errors and logs, with the settings that name its files.
func LoadCertificate(what string, f CertificateFiles, logger *slog.Logger) (*Certificate, error) {
	return loadCertificate(what, f, logger, func(*x509.Certificate) error { return nil })
}

// loadCertificate is LoadCertificate with a further condition.
func loadCertificate(what string, f CertificateFiles, logger *slog.Logger, fits func(*x509.Certificate) error) (*Certificate, error) {
	c := &Certificate{files: reloaded[*tls.Certificate]{
		what: what, paths: []string{f.Cert, f.Key}, logger: logger,
		parse: func(contents [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(contents[0], contents[1])
			if err == nil {
				err = fits(pair.Leaf)
			}
			if err != nil {
				return nil, fmt.Errorf("cannot use %s (%s and %s): %w", what, f.Cert, f.Key, err)
			}
			if now := time.Now(); now.After(pair.Leaf.NotAfter) {
				logger.Warn(what+" has expired: others will refuse it; replace the files", "file", f.Cert, "since", pair.Leaf.NotAfter)
			}
			return &pair, nil
		},
	}}
	if err := c.files.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// Expires is when the certificate in force does.
func (c *Certificate) Expires() time.Time { return c.files.now().value.Leaf.NotAfter }

// ServerTLS is how a server speaks that lets anybody in: TLS 1.2 at least, and HTTP/1.1 only.
func (c *Certificate) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{httpOverTLS},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.files.now().value, nil },
	}
}

// httpOverTLS is the only protocol that is spoken over TLS.
const httpOverTLS = "http/1.1"

// authorities are certificates of authorities, which are read again when their file changes.
type authorities struct {
	files reloaded[*x509.CertPool]
}

func loadAuthorities(what, path string, logger *slog.Logger) (*authorities, error) {
	a := &authorities{files: reloaded[*x509.CertPool]{
		what: what, paths: []string{path}, logger: logger,
		parse: func(contents [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(contents[0]) {
				return nil, fmt.Errorf("cannot use %s (%s): %w", what, path, errors.New("there is no certificate in it, as PEM"))
			}
			return pool, nil
		},
	}}
	if err := a.files.load(); err != nil {
		return nil, err
	}
	return a, nil
}
