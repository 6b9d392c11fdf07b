package forwarding

import (
	"crypto/x509"
	"fmt"
	"net"
)

// CheckHop returns an error that wraps [ErrBadHop] unless a hop comes from the node whose certificate the connection
// has shown. The authorities may have changed since it was, so a long connection is held against them again.
func CheckHop(p *Peers, c net.Conn, h *Hop) error {
	if p == nil {
		return nil
	}
	client := c.(*clientConn)
	if edition := p.Edition(); edition != client.edition {
		if err := p.VerifyClient(client.chain); err != nil {
			return fmt.Errorf("%w: %w", ErrBadHop, err)
		}
		client.edition = edition
	}
	return isFrom(h, client.chain[0])
}

// isFrom compares who has signed a hop with who a certificate is for.
func isFrom(h *Hop, c *x509.Certificate) error {
	if len(h.Visited) == 0 {
		if err := (Identity{Role: RoleEntry, Node: h.Source}).Names(c); err != nil {
			return fmt.Errorf("%w: the entry %s sent it: %w", ErrBadHop, h.Source, err)
		}
		return nil
	}
	last := h.Visited[len(h.Visited)-1]
	for _, id := range Identities(c) {
		if id.Role == RoleColo && id.Node == last {
			return nil
		}
	}
	return fmt.Errorf("%w: the colo server %s sent it: expected a certificate for it, got one %s",
		ErrBadHop, last, Describe(c))
}
