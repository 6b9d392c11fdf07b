package forwardtest

import (
	"crypto/x509"
	"testing"

	"colonnade/forwarding/peertls"
	"colonnade/internal/tlstest"
)

// Entry is the identity of an entry.
func Entry() peertls.Identity { return peertls.Identity{Role: peertls.RoleEntry, Node: "entry-1"} }

// Colo is the identity of a colo server.
func Colo() peertls.Identity {
	return peertls.Identity{Role: peertls.RoleColo, Colo: "ams", Node: "ams-1"}
}

// NewFiles returns the TLS files of a node whose authority is ca.
func NewFiles(t *testing.T, ca *tlstest.CA, who peertls.Identity, change func(*x509.Certificate)) tlstest.Files {
	t.Helper()
	f := tlstest.NewFiles(t)
	f.Put(ca, who.String(), change)
	f.Trust(ca)
	return f
}
