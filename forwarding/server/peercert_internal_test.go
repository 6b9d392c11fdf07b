package server

import (
	"crypto/x509"
	"log/slog"
	"testing"

	"colonnade/forwarding/peertls"
	"colonnade/internal/tlstest"
)

// A certificate that was valid at the handshake of a link is refused once it has expired.
func TestPeerCertExpires(t *testing.T) {
	ca := tlstest.NewCA(t, "fleet")
	self := peertls.Identity{Role: peertls.RoleColo, Colo: "ams", Node: "ams-1"}
	files := tlstest.NewFiles(t)
	files.Trust(ca)
	files.Put(ca, self.String(), nil)
	trusted, err := peertls.LoadTrustStore(peertls.Files(files), self, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f := func(change func(*x509.Certificate), valid bool) {
		t.Helper()
		leaf, err := x509.ParseCertificate(ca.Pair(peertls.Identity{Role: peertls.RoleEntry, Node: "entry-1"}.String(), change).Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		c := newPeerCert([]*x509.Certificate{leaf}, trusted.Version())
		for range 2 {
			if _, err := c.verify(trusted); (err == nil) != valid {
				t.Errorf("expires %s: %v", leaf.NotAfter, err)
			}
		}
	}
	f(nil, true)
	f(tlstest.Expired, false)
}
