package peertls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Files are what makes a node known to others, and others to it: its certificate and key, and the certificates of
// the authorities that are believed, all as PEM.
type Files struct{ Cert, Key, CA string }

// TrustStore is how a node and the others of its fleet know each other: by certificates of the fleet's own authorities,
// which name them (see [Identity]). All of it is read again when its files change. Nil is a fleet that uses no TLS.
type TrustStore struct {
	own      *Certificate
	roots    *roots
	logger   *slog.Logger
	throttle logThrottle
}

// TrustedPeer is a node that must be met.
type TrustedPeer struct {
	store    *TrustStore
	Identity Identity
}

const (
	certificateName = "this node's certificate for other nodes (flags -peer-tls-cert and -peer-tls-key)"
	rootsName       = "the certificates of authorities (flag -peer-tls-ca)"
)

// LoadTrustStore reads the files of the node that is self. Its certificate must name it: else everybody would refuse it.
func LoadTrustStore(f Files, self Identity, logger *slog.Logger) (*TrustStore, error) {
	trusted, err := loadRoots(rootsName, f.CA, logger)
	if err != nil {
		return nil, err
	}
	p := &TrustStore{roots: trusted, logger: logger}
	p.own, err = loadCertificate(certificateName, CertificateFiles{Cert: f.Cert, Key: f.Key}, logger, func(pair *tls.Certificate) error {
		return p.checkOwn(pair, self)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// checkOwn says why a certificate cannot be this node's own. One that others will refuse does not replace one that they
// believe; at a start there is none to go on with.
func (p *TrustStore) checkOwn(pair *tls.Certificate, self Identity) error {
	if err := self.CheckCertificate(pair.Leaf); err != nil {
		return err
	}
	err := p.checkTrusted(pair)
	if err == nil || p.own != nil && p.checkTrusted(p.own.files.InForce.Load().Value) == nil {
		return err
	}
	p.logger.Warn("other nodes that believe the same authorities will refuse this node's certificate", "error", err)
	return nil
}

// checkTrusted says why other nodes with the same authorities will refuse a certificate, which is for both sides of a
// connection.
func (p *TrustStore) checkTrusted(pair *tls.Certificate) error {
	chain := append([]*x509.Certificate{pair.Leaf}, parseIntermediates(pair)...)
	for _, side := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := p.verifyChain(chain, side); err != nil {
			return err
		}
	}
	return nil
}

// parseIntermediates returns what stands behind a certificate in its file.
func parseIntermediates(pair *tls.Certificate) (rest []*x509.Certificate) {
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			rest = append(rest, c)
		}
	}
	return rest
}

// Expires is when the node's own certificate does.
func (p *TrustStore) Expires() time.Time { return p.own.Expires() }

// Validity is from when until when it is.
func (p *TrustStore) Validity() (begins, expires time.Time) { return p.own.Validity() }

// Version changes when the node's certificate or the authorities do.
func (p *TrustStore) Version() uint64 {
	if p == nil {
		return 0
	}
	return p.own.files.Now().Number<<32 + p.roots.files.Now().Number
}

// Version changes when the certificates by which the peer is verified do; it is 0 without mutual TLS.
func (p TrustedPeer) Version() uint64 { return p.store.Version() }

// Peer returns the node that is who, to be verified by what is in force; without mutual TLS it is the zero value.
func (p *TrustStore) Peer(who Identity) TrustedPeer {
	if p == nil {
		return TrustedPeer{}
	}
	return TrustedPeer{store: p, Identity: who}
}

// ClientTLS returns how to speak to the peer, or nil without mutual TLS.
func (p TrustedPeer) ClientTLS() *tls.Config {
	if p.store == nil {
		return nil
	}
	return p.store.clientTLS(p.Identity)
}

// clientTLS is how the node speaks to who. There are no names of hosts in this, so it is not TLS itself that verifies.
func (p *TrustStore) clientTLS(who Identity) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{ALPN},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, with what is in force now
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return p.own.files.Now().Value, nil
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

// ServerTLS is how the node is spoken to. Sessions are not resumed: each connection shows its certificate to what is in
// force then.
func (p *TrustStore) ServerTLS() *tls.Config {
	if p == nil {
		return nil
	}
	c := p.own.ServerTLS()
	c.ClientAuth, c.SessionTicketsDisabled = tls.RequestClientCert, true // VerifyClient refuses those without
	c.VerifyConnection = func(s tls.ConnectionState) error { return p.VerifyClient(s.PeerCertificates) }
	return c
}

// VerifyClient returns an error unless chain, the certificate that a client has shown and what stands behind it, is that of a node
// of the fleet, by the authorities in force.
func (p *TrustStore) VerifyClient(chain []*x509.Certificate) error {
	leaf, err := p.verifyChain(chain, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return err
	}
	return hasRole(leaf)
}

// verifyChain verifies a certificate, whose chain stands behind it, against the authorities in force.
func (p *TrustStore) verifyChain(chain []*x509.Certificate, usage x509.ExtKeyUsage) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, errNoCertificate
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: p.roots.files.Now().Value, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, fmt.Errorf("expected a certificate of an authority in -peer-tls-ca (%s), got one %s: %w",
			p.roots.files.Paths[0], Describe(chain[0]), err)
	}
	return chain[0], nil
}

// Explain says what to do about a handshake that has failed, of ours with a server.
func (p TrustedPeer) Explain(err error) error {
	var notTLS tls.RecordHeaderError
	switch {
	case p.store == nil:
		return err
	case p.SentAlert(err):
		return fmt.Errorf("%w: it does not believe our certificate (%s); its log says why", err, p.store.own.files.Paths[0])
	case errors.As(err, &notTLS):
		return fmt.Errorf("%w: it speaks no TLS: start it with -peer-tls-cert, -peer-tls-key and -peer-tls-ca", err)
	}
	return fmt.Errorf("no TLS with %s: %w", p.Identity, err)
}

// SentAlert tells an alert from everything else that may end a connection. With TLS 1.3 a client hears only after its
// own handshake that its certificate is not believed.
func (p TrustedPeer) SentAlert(err error) bool {
	var said *net.OpError
	return p.store != nil && errors.As(err, &said) && said.Op == "remote error"
}

// ExplainClient says what to do about a handshake that has failed, of a client with us.
func (p *TrustStore) ExplainClient(err error) error {
	var notTLS tls.RecordHeaderError
	const start = "if it is a node of this fleet, start it with -peer-tls-cert, -peer-tls-key and -peer-tls-ca"
	switch {
	case errors.Is(err, ErrPlainHTTP), errors.As(err, &notTLS), errors.Is(err, errNoCertificate):
		return fmt.Errorf("%w: %s", err, start)
	case TrustedPeer{store: p}.SentAlert(err):
		return fmt.Errorf("%w: it does not believe our certificate (%s); its log says why", err, p.own.files.Paths[0])
	}
	return err
}

// LogRefused logs that the client at address from was refused: each reason, for each address, at most once a minute.
func (p *TrustStore) LogRefused(what, from string, reason error) {
	address, _, _ := net.SplitHostPort(from)
	if p.throttle.allow(address, reason.Error(), time.Now()) {
		p.logger.Warn(what, "from", from, "reason", reason)
	}
}
