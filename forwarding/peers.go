package forwarding

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// PeerFiles are what makes a node known to others, and others to it: its certificate and key, and the certificates of
// the authorities that are believed, all as PEM.
type PeerFiles struct{ Cert, Key, CA string }

// Peers is how a node and the others of its fleet know each other: by certificates of the fleet's own authorities,
// which name them (see [Identity]). All of it is read again when its files change. Nil is a fleet that uses no TLS.
type Peers struct {
	own     *Certificate
	trusted *authorities
	logger  *slog.Logger
	told    seldom
}

// Peer is a node that must be met.
type Peer struct {
	peers    *Peers
	Identity Identity
}

const (
	ownCertificate = "this node's certificate for other nodes (flags -peer-tls-cert and -peer-tls-key)"
	theAuthorities = "the certificates of authorities (flag -peer-tls-ca)"
)

// LoadPeers reads the files of the node that is self. Its certificate must name it: else everybody would refuse it.
func LoadPeers(f PeerFiles, self Identity, logger *slog.Logger) (*Peers, error) {
	trusted, err := loadAuthorities(theAuthorities, f.CA, logger)
	if err != nil {
		return nil, err
	}
	p := &Peers{trusted: trusted, logger: logger}
	p.own, err = loadCertificate(ownCertificate, CertificateFiles{Cert: f.Cert, Key: f.Key}, logger, func(pair *tls.Certificate) error {
		return p.fits(pair, self)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// fits says why a certificate cannot be this node's own. One that others will refuse does not replace one that they
// believe; at a start there is none to go on with.
func (p *Peers) fits(pair *tls.Certificate, self Identity) error {
	if err := says(pair.Leaf, self.String()); err != nil {
		return err
	}
	err := p.believed(pair)
	if err == nil || p.own != nil && p.believed(p.own.files.inForce.Load().value) == nil {
		return err
	}
	p.logger.Warn("other nodes that believe the same authorities will refuse this node's certificate", "reason", err)
	return nil
}

// believed says why other nodes with the same authorities will refuse a certificate, which is for both sides of a
// connection.
func (p *Peers) believed(pair *tls.Certificate) error {
	chain := append([]*x509.Certificate{pair.Leaf}, parseRest(pair)...)
	for _, side := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := p.chains(chain, side); err != nil {
			return err
		}
	}
	return nil
}

// parseRest returns what stands behind a certificate in its file.
func parseRest(pair *tls.Certificate) (rest []*x509.Certificate) {
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			rest = append(rest, c)
		}
	}
	return rest
}

// Expires is when the node's own certificate does.
func (p *Peers) Expires() time.Time { return p.own.Expires() }

// Good is from when until when it is.
func (p *Peers) Good() (begins, expires time.Time) { return p.own.Good() }

// edition changes when the node's certificate or the authorities do.
func (p *Peers) edition() uint64 {
	if p == nil {
		return 0
	}
	return p.own.files.now().number<<32 + p.trusted.files.now().number
}

func (p Peer) edition() uint64 { return p.peers.edition() }

// Target is where who is reached: without peers, whoever is there.
func (p *Peers) Target(address string, who Identity) Target {
	t := Target{Address: address, Host: address}
	if p != nil {
		t.Peer = Peer{peers: p, Identity: who}
	}
	return t
}

// clientTLS is how the node speaks to who. There are no names of hosts in this, so it is not TLS itself that verifies.
func (p *Peers) clientTLS(who Identity) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{httpOverTLS},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, with what is in force now
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return p.own.files.now().value, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf, err := p.chains(s.PeerCertificates, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			return says(leaf, who.String())
		},
	}
}

// serverTLS is how the node is spoken to. Sessions are not resumed: each connection shows its certificate to what is in
// force then.
func (p *Peers) serverTLS() *tls.Config {
	if p == nil {
		return nil
	}
	c := p.own.ServerTLS()
	c.ClientAuth, c.SessionTicketsDisabled = tls.RequestClientCert, true // isClient refuses those without
	c.VerifyConnection = func(s tls.ConnectionState) error { return p.isClient(s.PeerCertificates) }
	return c
}

func (p *Peers) isClient(chain []*x509.Certificate) error {
	leaf, err := p.chains(chain, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return err
	}
	return hasRole(leaf)
}

// chains verifies a certificate, whose chain stands behind it, against the authorities in force.
func (p *Peers) chains(chain []*x509.Certificate, usage x509.ExtKeyUsage) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, errNoCertificate
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: p.trusted.files.now().value, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, fmt.Errorf("expected a certificate of an authority in -peer-tls-ca (%s), got one %s: %w",
			p.trusted.files.paths[0], describe(chain[0]), err)
	}
	return chain[0], nil
}

// CheckHop returns an error that wraps [ErrBadHop] unless a hop comes from the node whose certificate the connection
// has shown. The authorities may have changed since it was, so a long connection is held against them again.
func (p *Peers) CheckHop(c net.Conn, h *Hop) error {
	if p == nil {
		return nil
	}
	client := c.(*clientConn)
	if edition := p.edition(); edition != client.edition {
		if err := p.isClient(client.chain); err != nil {
			return fmt.Errorf("%w: %w", ErrBadHop, err)
		}
		client.edition = edition
	}
	return h.isFrom(client.chain[0])
}

// isFrom compares who has signed a hop with who a certificate is for.
func (h *Hop) isFrom(c *x509.Certificate) error {
	if len(h.Visited) == 0 {
		if err := says(c, Identity{Role: RoleEntry, Node: h.Source}.String()); err != nil {
			return fmt.Errorf("%w: the entry %s sent it: %w", ErrBadHop, h.Source, err)
		}
		return nil
	}
	last := h.Visited[len(h.Visited)-1]
	for _, text := range identities(c) {
		if id, ok := parseIdentity(text); ok && id.Role == RoleColo && id.Node == last {
			return nil
		}
	}
	return fmt.Errorf("%w: the colo server %s sent it: expected a certificate for it, got one %s",
		ErrBadHop, last, describe(c))
}

// explain says what to do about a handshake that has failed, of ours with a server.
func (p Peer) explain(err error) error {
	var notTLS tls.RecordHeaderError
	switch {
	case p.peers == nil:
		return err
	case p.refusedUs(err):
		return fmt.Errorf("%w: it does not believe our certificate (%s); its log says why", err, p.peers.own.files.paths[0])
	case errors.As(err, &notTLS):
		return fmt.Errorf("%w: it speaks no TLS: start it with -peer-tls-cert, -peer-tls-key and -peer-tls-ca", err)
	}
	return fmt.Errorf("no TLS with %s: %w", p.Identity, err)
}

// refusedUs tells an alert from everything else that may end a connection. With TLS 1.3 a client hears only after its
// own handshake that its certificate is not believed.
func (p Peer) refusedUs(err error) bool {
	var said *net.OpError
	return p.peers != nil && errors.As(err, &said) && said.Op == "remote error"
}

// explainClient says what to do about a handshake that has failed, of a client with us.
func (p *Peers) explainClient(err error) error {
	var notTLS tls.RecordHeaderError
	const start = "if it is a node of this fleet, start it with -peer-tls-cert, -peer-tls-key and -peer-tls-ca"
	switch {
	case errors.Is(err, errPlainHTTP), errors.As(err, &notTLS), errors.Is(err, errNoCertificate):
		return fmt.Errorf("%w: %s", err, start)
	case Peer{peers: p}.refusedUs(err):
		return fmt.Errorf("%w: it does not believe our certificate (%s); its log says why", err, p.own.files.paths[0])
	}
	return err
}

// refused tells of somebody who was refused: of each reason, and of each address, at most once a minute.
func (p *Peers) refused(what, from string, reason error) {
	address, _, _ := net.SplitHostPort(from)
	if p.told.isNews(address, reason.Error(), time.Now()) {
		p.logger.Warn(what, "from", from, "reason", reason)
	}
}
