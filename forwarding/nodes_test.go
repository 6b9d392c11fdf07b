package forwarding

import (
	"crypto/x509"
	"testing"

	"colonnade/internal/tlstest"
)

// the two nodes of these tests.
func anEntry() Identity { return Identity{Role: RoleEntry, Node: "entry-1"} }
func aColo() Identity   { return Identity{Role: RoleColo, Colo: "ams", Node: "ams-1"} }

// newFiles returns the files of a node that an authority has made known, and that believes it.
func newFiles(t *testing.T, ca *tlstest.CA, who Identity, change func(*x509.Certificate)) tlstest.Files {
	t.Helper()
	f := tlstest.NewFiles(t)
	f.Put(ca, who.String(), change)
	f.Trust(ca)
	return f
}
