package node

import (
	"fmt"
	"strings"

	"colonnade/analytics/metrics"
	"colonnade/forwarding"
)

// publicTLS reads the certificate of the listener for clients. Nil is none.
func (p *parts) publicTLS(f forwarding.CertificateFiles) (*forwarding.Certificate, error) {
	if given, err := together(setting{"-tls-cert", f.Cert}, setting{"-tls-key", f.Key}); !given {
		return nil, err
	}
	c, err := forwarding.LoadCertificate("the certificate for clients (flags -tls-cert and -tls-key)", f, p.config.Logger)
	if err != nil {
		return nil, err
	}
	metrics.RegisterCertificate(p.metrics, "public", c.Expires)
	p.certificates = append(p.certificates, certificate{"public", c.Good})
	return c, nil
}

// peerTLS reads what makes the node known to others, and them to it. Nil is a fleet without.
func (p *parts) peerTLS(self forwarding.Identity) (*forwarding.Peers, error) {
	f := p.config.PeerTLS
	given, err := together(setting{"-peer-tls-cert", f.Cert}, setting{"-peer-tls-key", f.Key},
		setting{"-peer-tls-ca", f.CA})
	if !given {
		return nil, err
	}
	peers, err := forwarding.LoadPeers(f, self, p.config.Logger)
	if err != nil {
		return nil, err
	}
	metrics.RegisterCertificate(p.metrics, "peer", peers.Expires)
	p.certificates = append(p.certificates, certificate{"peer", peers.Good})
	return peers, nil
}

// setting is a flag and what it is set to.
type setting struct{ flag, value string }

// together reports whether settings are made that go together. That only some are is an error.
func together(all ...setting) (given bool, err error) {
	var names, missing []string
	for _, s := range all {
		names = append(names, s.flag)
		if s.value == "" {
			missing = append(missing, s.flag)
		}
	}
	switch len(missing) {
	case 0:
		return true, nil
	case len(all):
		return false, nil
	}
	return false, fmt.Errorf("flag %s is missing: the flags %s go together",
		strings.Join(missing, " and "), strings.Join(names, ", "))
}
