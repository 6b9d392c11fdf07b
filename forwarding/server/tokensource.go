package server

import (
	"crypto/x509"
	"fmt"
	"net"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peertls"
)

// VerifyTokenSource returns an error that wraps [hop.ErrBadToken] unless the node that has signed token h is the one that the
// certificate of connection c names. The certificate is verified again if the authorities have changed since the last time. Without
// mutual TLS (p is nil) it verifies nothing.
func VerifyTokenSource(p *peertls.TrustStore, c net.Conn, h *hop.Token) error {
	leaf, err := verifiedLeaf(p, c)
	if err != nil || leaf == nil {
		return err
	}
	return checkSource(h, leaf)
}

// VerifySender is VerifyTokenSource for a token that only one node may have signed.
func VerifySender(p *peertls.TrustStore, c net.Conn, who peertls.Identity) error {
	leaf, err := verifiedLeaf(p, c)
	if err != nil || leaf == nil {
		return err
	}
	if err := who.CheckCertificate(leaf); err != nil {
		return fmt.Errorf("%w: %w", hop.ErrBadToken, err)
	}
	return nil
}

// verifiedLeaf returns the certificate of the client of connection c, or nil without mutual TLS.
func verifiedLeaf(p *peertls.TrustStore, c net.Conn) (*x509.Certificate, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // without mutual TLS
	}
	client := c.(*serverConn)
	leaf, err := client.peer.verify(p)
	if err != nil {
		if client.linked != nil {
			client.linked.Link().GoAway() // a node with another certificate must show it on a new connection
		}
		return nil, fmt.Errorf("%w: %w", hop.ErrBadToken, err)
	}
	return leaf, nil
}

// checkSource compares the signer of a token with the node that a certificate names: the entry of a token that has visited no server, else
// the last of those servers. A sender before [hop.NodeNamesProtocol] does not name its colo.
func checkSource(h *hop.Token, c *x509.Certificate) error {
	if len(h.Visited) == 0 {
		if err := (peertls.Identity{Role: peertls.RoleEntry, Node: h.Source}).CheckCertificate(c); err != nil {
			return fmt.Errorf("%w: sent by entry %s: %w", hop.ErrBadToken, h.Source, err)
		}
		return nil
	}
	last := h.Visited[len(h.Visited)-1]
	if colo, node := hop.SplitNodeName(last); colo != "" {
		if err := (peertls.Identity{Role: peertls.RoleColo, Colo: colo, Node: node}).CheckCertificate(c); err != nil {
			return fmt.Errorf("%w: sent by colo server %s: %w", hop.ErrBadToken, last, err)
		}
		return nil
	}
	for _, id := range peertls.Identities(c) {
		if id.Role == peertls.RoleColo && id.Node == last {
			return nil
		}
	}
	return fmt.Errorf("%w: sent by colo server %s: expected a certificate for it, got one %s",
		hop.ErrBadToken, last, peertls.Describe(c))
}
