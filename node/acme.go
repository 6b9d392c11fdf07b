package node

import (
	"cmp"
	"crypto/tls"
	"errors"
	"path/filepath"

	"colonnade/analytics/metrics"
	"colonnade/forwarding/acmecert"
	"colonnade/forwarding/peertls"
)

// checkACME refuses settings of certificates by ACME with which no node can run, and completes those of a.
func (c *Config) checkACME(a *acmecert.Config, files peertls.CertificateFiles) error {
	if len(a.Domains) > 0 && cmp.Or(files.Cert, files.Key) != "" {
		return errors.New("flags -tls-domain and -tls-cert exclude each other: the certificate is requested by ACME, or it is in files")
	}
	a.Logger = c.Logger
	if c.DataDir != "" {
		a.CacheDir = filepath.Join(c.DataDir, "acme")
	}
	return a.Check()
}

// acmeTLS opens the source of the listener's certificates by ACME, and returns the listener's configuration. The caller runs the source.
// Both are nil if the flags name no domain.
func (r *runtime) acmeTLS(a acmecert.Config) (*tls.Config, *acmecert.Source, error) {
	if len(a.Domains) == 0 {
		return nil, nil, nil
	}
	source, err := acmecert.Open(a)
	if err != nil {
		return nil, nil, err
	}
	metrics.RegisterCertificate(r.metrics, "public", source.Expires)
	r.certificates = append(r.certificates, func() []CertificateState { return acmeStates(source) })
	return source.ServerTLS(), source, nil
}

func acmeStates(source *acmecert.Source) (all []CertificateState) {
	for _, s := range source.States() {
		all = append(all, CertificateState{Listener: "public", Name: s.Name, Begins: s.Begins, Expires: s.Expires, Problem: s.Problem})
	}
	return all
}
