package peertls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"colonnade/forwarding/reload"
)

// Files are the PEM files of a node's mutual TLS: its certificate and key, and the certificates of the authorities that it trusts.
type Files struct{ Cert, Key, CA string }

// TrustStore holds a node's own certificate and the authorities that it trusts. Their files are read again when they have
// changed, and each handshake uses the versions in force at that time. A nil TrustStore means that the fleet uses no mutual TLS.
// Its methods may be called by several goroutines at once.
type TrustStore struct {
	own      *Certificate
	roots    *reload.Files[*x509.CertPool]
	files    Files
	logger   *slog.Logger
	throttle logThrottle
}

const (
	certificateName = "this node's certificate for other nodes (flags -peer-tls-cert and -peer-tls-key)"
	rootsName       = "the certificates of authorities (flag -peer-tls-ca)"
)

// LoadTrustStore reads the files of the node self. Its certificate must name self, since every other node would refuse it
// otherwise.
func LoadTrustStore(f Files, self Identity, logger *slog.Logger) (*TrustStore, error) {
	roots, err := loadRoots(f.CA, logger)
	if err != nil {
		return nil, err
	}
	p := &TrustStore{roots: roots, files: f, logger: logger}
	p.own, err = certificateSource{
		name: certificateName, files: CertificateFiles{Cert: f.Cert, Key: f.Key}, logger: logger,
		check: func(pair, current *tls.Certificate) error { return p.checkOwn(pair, current, self) },
	}.load()
	if err != nil {
		return nil, err
	}
	return p, nil
}

// checkOwn returns an error if a certificate cannot be this node's own. A certificate that other nodes will refuse does not replace
// one that they accept; at the start there is none to keep, so it is only logged.
func (p *TrustStore) checkOwn(pair, current *tls.Certificate, self Identity) error {
	if err := self.CheckCertificate(pair.Leaf); err != nil {
		return err
	}
	err := p.checkTrusted(pair)
	if err == nil || current != nil && p.checkTrusted(current) == nil {
		return err
	}
	p.logger.Warn("nodes that trust the same authorities will refuse this node's certificate", "file", p.files.Cert, "error", err)
	return nil
}

// checkTrusted returns why nodes with the same authorities would refuse a certificate, which must be valid for both sides of a
// connection.
func (p *TrustStore) checkTrusted(pair *tls.Certificate) error {
	chain := append([]*x509.Certificate{pair.Leaf}, parseIntermediates(pair)...)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := p.verifyChain(chain, usage); err != nil {
			return err
		}
	}
	return nil
}

// parseIntermediates returns the certificates behind the first in a certificate's file.
func parseIntermediates(pair *tls.Certificate) (all []*x509.Certificate) {
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			all = append(all, c)
		}
	}
	return all
}

// Expires returns when the node's own certificate expires.
func (p *TrustStore) Expires() time.Time { return p.own.Expires() }

// Validity returns from when until when the node's own certificate is valid.
func (p *TrustStore) Validity() (begins, expires time.Time) { return p.own.Validity() }

// Version changes when the node's certificate or the authorities change. It is 0 without mutual TLS.
func (p *TrustStore) Version() uint64 {
	if p == nil {
		return 0
	}
	return p.own.files.Current().Number<<32 + p.roots.Current().Number
}

// Peer returns the node who, to be verified with the versions in force. Without mutual TLS it is the zero value.
func (p *TrustStore) Peer(who Identity) TrustedPeer {
	if p == nil {
		return TrustedPeer{}
	}
	return TrustedPeer{store: p, Identity: who}
}

// clientTLS returns the configuration of a connection to who. The certificate names nodes and not hosts, so VerifyConnection verifies
// it in place of crypto/tls.
func (p *TrustStore) clientTLS(who Identity) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{ALPN},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies, against the authorities in force
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return p.own.current(), nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf, err := p.verifyChain(s.PeerCertificates, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			return who.CheckCertificate(leaf)
		},
	}
}

// ServerTLS returns the configuration of the listener for nodes, or nil without mutual TLS. Sessions are not resumed, so that each
// connection's certificate is verified against the authorities in force.
func (p *TrustStore) ServerTLS() *tls.Config {
	if p == nil {
		return nil
	}
	c := p.own.ServerTLS()
	c.ClientAuth, c.SessionTicketsDisabled = tls.RequestClientCert, true // VerifyClient refuses a client without a certificate
	c.VerifyConnection = func(s tls.ConnectionState) error { return p.VerifyClient(s.PeerCertificates) }
	return c
}

// VerifyClient returns an error unless chain, a client's certificate followed by its intermediates, names a node of the fleet and
// is valid by the authorities in force.
func (p *TrustStore) VerifyClient(chain []*x509.Certificate) error {
	leaf, err := p.verifyChain(chain, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return err
	}
	return checkNamesNode(leaf)
}

// verifyChain verifies a certificate, followed by its intermediates, against the authorities in force.
func (p *TrustStore) verifyChain(chain []*x509.Certificate, usage x509.ExtKeyUsage) (leaf *x509.Certificate, err error) {
	if len(chain) == 0 {
		return nil, errNoCertificate
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{
		Roots: p.roots.Current().Value, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, fmt.Errorf("expected a certificate of an authority in -peer-tls-ca (%s), got one %s: %w",
			p.files.CA, Describe(chain[0]), err)
	}
	return chain[0], nil
}

// ExplainClient adds to the error of a failed handshake with a client what the operator can do about it.
func (p *TrustStore) ExplainClient(err error) error {
	var notTLS tls.RecordHeaderError
	const advice = "if it is a node of this fleet, start it with -peer-tls-cert, -peer-tls-key and -peer-tls-ca"
	switch {
	case errors.Is(err, ErrPlainHTTP), errors.As(err, &notTLS), errors.Is(err, errNoCertificate):
		return fmt.Errorf("%w: %s", err, advice)
	case isAlert(err):
		return p.explainAlert(err)
	}
	return err
}

func (p *TrustStore) explainAlert(err error) error {
	return fmt.Errorf("%w: it rejected our certificate (%s); its log says why", err, p.files.Cert)
}

// LogRefused logs that the client at address from was refused: each error, for each host, at most once a minute.
func (p *TrustStore) LogRefused(from string, err error) {
	host, _, _ := net.SplitHostPort(from)
	if p.throttle.allow(host, err.Error(), time.Now()) {
		p.logger.Warn("connection refused on the peer listener", "from", from, "error", err)
	}
}
