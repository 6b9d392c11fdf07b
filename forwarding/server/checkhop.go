package server

import (
	"crypto/x509"
	"fmt"
	"net"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peertls"
)

// VerifyTokenSource returns an error that wraps [hop.ErrBadToken] unless a hop comes from the node whose certificate the connection
// has shown. The authorities may have changed since it was, so a long connection is held against them again.
func VerifyTokenSource(p *peertls.TrustStore, c net.Conn, h *hop.Token) error {
	if p == nil {
		return nil
	}
	client := c.(*serverConn)
	if edition := p.Version(); edition != client.verifiedVersion {
		if err := p.VerifyClient(client.chain); err != nil {
			return fmt.Errorf("%w: %w", hop.ErrBadToken, err)
		}
		client.verifiedVersion = edition
	}
	return checkSource(h, client.chain[0])
}

// checkSource compares who has signed a hop with who a certificate is for.
func checkSource(h *hop.Token, c *x509.Certificate) error {
	if len(h.Visited) == 0 {
		if err := (peertls.Identity{Role: peertls.RoleEntry, Node: h.Source}).CheckCertificate(c); err != nil {
			return fmt.Errorf("%w: the entry %s sent it: %w", hop.ErrBadToken, h.Source, err)
		}
		return nil
	}
	last := h.Visited[len(h.Visited)-1]
	for _, id := range peertls.Identities(c) {
		if id.Role == peertls.RoleColo && id.Node == last {
			return nil
		}
	}
	return fmt.Errorf("%w: the colo server %s sent it: expected a certificate for it, got one %s",
		hop.ErrBadToken, last, peertls.Describe(c))
}
