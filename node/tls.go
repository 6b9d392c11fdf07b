package node

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/forwarding/peertls"
)

// publicTLS loads the certificate of the listener for clients, and returns the listener's configuration. It is nil if the flags name
// no certificate.
func (r *runtime) publicTLS(f peertls.CertificateFiles) (*tls.Config, error) {
	if given, err := allOrNone(setting{"-tls-cert", f.Cert}, setting{"-tls-key", f.Key}); !given {
		return nil, err
	}
	c, err := peertls.LoadCertificate("the certificate for clients (flags -tls-cert and -tls-key)", f, r.config.Logger)
	if err != nil {
		return nil, err
	}
	metrics.RegisterCertificate(r.metrics, "public", c.Expires)
	r.certificates = append(r.certificates, fileState("public", c.Validity))
	return c.ServerTLS(), nil
}

// fileState returns the state of a certificate in files.
func fileState(listener string, validity func() (begins, expires time.Time)) func() []CertificateState {
	return func() []CertificateState {
		begins, expires := validity()
		return []CertificateState{{Listener: listener, Begins: begins, Expires: expires}}
	}
}

// peerTLS loads the node's certificate for other nodes, and the authorities of theirs. It is nil if the flags name none:
// nodes then speak plain HTTP to each other.
func (r *runtime) peerTLS(self peertls.Identity) (*peertls.TrustStore, error) {
	f := r.config.PeerTLS
	given, err := allOrNone(setting{"-peer-tls-cert", f.Cert}, setting{"-peer-tls-key", f.Key},
		setting{"-peer-tls-ca", f.CA})
	if !given {
		return nil, err
	}
	peers, err := peertls.LoadTrustStore(f, self, r.config.Logger)
	if err != nil {
		return nil, err
	}
	metrics.RegisterCertificate(r.metrics, "peer", peers.Expires)
	r.certificates = append(r.certificates, fileState("peer", peers.Validity))
	return peers, nil
}

// setting is a flag and its value.
type setting struct{ flag, value string }

// allOrNone reports whether flags that need each other are set. It is an error if only some are.
func allOrNone(all ...setting) (given bool, err error) {
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
