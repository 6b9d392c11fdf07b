package server

import (
	"crypto/x509"
	"sync/atomic"
	"time"

	"colonnade/forwarding/peertls"
)

// peerCert is the certificate of a node's connection. The streams of a link share that of its connection, so its methods may be called by several
// goroutines at once.
type peerCert struct {
	chain    []*x509.Certificate // the certificate and its intermediates
	expires  time.Time           // the first of them
	verified atomic.Uint64       // version of the trust store by which chain was verified last
}

func newPeerCert(chain []*x509.Certificate, verified uint64) *peerCert {
	c := &peerCert{chain: chain, expires: chain[0].NotAfter}
	for _, intermediate := range chain[1:] {
		if intermediate.NotAfter.Before(c.expires) {
			c.expires = intermediate.NotAfter
		}
	}
	c.verified.Store(verified)
	return c
}

// verify returns the certificate. It is verified again if the authorities have changed since the last time, and when it has expired.
func (c *peerCert) verify(p *peertls.TrustStore) (*x509.Certificate, error) {
	if version := p.Version(); version != c.verified.Load() || time.Now().After(c.expires) {
		if err := p.VerifyClient(c.chain); err != nil {
			return nil, err
		}
		c.verified.Store(version)
	}
	return c.chain[0], nil
}
