package sinks

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS returns how to connect, as the settings tls and ca of a scheme say; nil is without TLS.
func (s *Spec) TLS() (*tls.Config, error) {
	on, ca := s.Param("tls", "false"), s.Param("ca", "")
	switch {
	case on != "true" && on != "false":
		return nil, fmt.Errorf("tls=%s: must be true or false", on)
	case on == "false" && ca != "":
		return nil, fmt.Errorf("ca=%s: without tls=true it has no effect; set both", ca)
	case on == "false":
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return config, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("ca=%s: %w", ca, err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca=%s: the file has no certificate in PEM", ca)
	}
	return config, nil
}
