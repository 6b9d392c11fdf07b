package node

import (
	"cmp"
	"errors"
	"path/filepath"

	"colonnade/analytics/metrics"
	"colonnade/forwarding/acmecert"
)

// acmeConfig returns the settings of certificates by ACME. It refuses those with which the process cannot run.
func (c *ServeConfig) acmeConfig() (acmecert.Config, error) {
	a := c.ACME
	a.Logger = c.Logger
	if c.DataDir != "" {
		a.CacheDir = filepath.Join(c.DataDir, "acme")
	}
	if err := a.Check(); err != nil || len(a.Domains) == 0 {
		return a, err
	}
	switch {
	case cmp.Or(c.TLS.Cert, c.TLS.Key) != "":
		return a, errors.New("flags -tls-domain and -tls-cert exclude each other: the certificate is requested by ACME, or it is in files")
	case c.Documents == "" && !c.Open:
		return a, errors.New("flag -tls-domain without -config: there are no API keys, and all clients that find the name could use the engine; " +
			"name documents with keys (colonnade keys create), or allow that with the flag -open")
	}
	return a, nil
}

// openACME opens the source of the listener's certificates by ACME, which the caller runs. It is nil if the flags name no domain.
func (r *runtime) openACME(c *ServeConfig) (*acmecert.Source, error) {
	a, err := c.acmeConfig()
	if err != nil || len(a.Domains) == 0 {
		return nil, err
	}
	source, err := acmecert.Open(a)
	if err != nil {
		return nil, err
	}
	r.acme = source
	metrics.RegisterCertificate(r.metrics, "public", source.Expires)
	r.certificates = append(r.certificates, func() []CertificateState { return acmeStates(source) })
	return source, nil
}

func acmeStates(source *acmecert.Source) (all []CertificateState) {
	for _, s := range source.States() {
		all = append(all, CertificateState{Listener: "public", Name: s.Name, Begins: s.Begins, Expires: s.Expires, Problem: s.Problem})
	}
	return all
}
