package peertls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// TrustedPeer is a node to connect to, whose certificate is verified. The zero value stands for any server, without mutual TLS.
type TrustedPeer struct {
	store    *TrustStore
	Identity Identity
}

// ClientTLS returns the configuration of a connection to the peer, or nil without mutual TLS.
func (p TrustedPeer) ClientTLS() *tls.Config {
	if p.store == nil {
		return nil
	}
	return p.store.clientTLS(p.Identity)
}

// Expires returns when this node's certificate expires, or zero without mutual TLS.
func (p TrustedPeer) Expires() time.Time {
	if p.store == nil {
		return time.Time{}
	}
	return p.store.Expires()
}

// Version changes when the certificates by which the peer is verified change. It is 0 without mutual TLS.
func (p TrustedPeer) Version() uint64 { return p.store.Version() }

// Explain adds to the error of a failed handshake with the peer what the operator can do about it.
func (p TrustedPeer) Explain(err error) error {
	var notTLS tls.RecordHeaderError
	switch {
	case p.store == nil:
		return err
	case p.SentAlert(err):
		return p.store.explainAlert(err)
	case errors.As(err, &notTLS):
		return fmt.Errorf("%w: it does not use TLS: start it with -peer-tls-cert, -peer-tls-key and -peer-tls-ca", err)
	}
	return fmt.Errorf("TLS handshake with %s failed: %w", p.Identity, err)
}

// SentAlert reports whether the peer ended the connection with a TLS alert. With TLS 1.3 a client learns only after its own part of
// the handshake that the server rejects its certificate.
func (p TrustedPeer) SentAlert(err error) bool { return p.store != nil && isAlert(err) }

func isAlert(err error) bool {
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == "remote error"
}
