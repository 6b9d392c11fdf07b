package forwardtest

import (
	"crypto/x509"
	"testing"

	"colonnade/forwarding/peertls"
	"colonnade/internal/tlstest"
)

// the two nodes of these tests.
func Entry() peertls.Identity { return peertls.Identity{Role: peertls.RoleEntry, Node: "entry-1"} }
func Colo() peertls.Identity {
	return peertls.Identity{Role: peertls.RoleColo, Colo: "ams", Node: "ams-1"}
}

// NewFiles returns the files of a node that an authority has made known, and that believes it.
func NewFiles(t *testing.T, ca *tlstest.CA, who peertls.Identity, change func(*x509.Certificate)) tlstest.Files {
	t.Helper()
	f := tlstest.NewFiles(t)
	f.Put(ca, who.String(), change)
	f.Trust(ca)
	return f
}
