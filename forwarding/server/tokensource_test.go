package server

import (
	"crypto/x509"
	"errors"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/internal/tlstest"
)

// A token is believed from the entry that has signed it, and after a visit only from the server that was visited last: both its colo and its
// node must be those of the certificate. An older sender names its node alone.
func TestSourceOfToken(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t, "fleet")
	certificate := func(uri string) *x509.Certificate { return ca.Pair(uri, nil).Leaf }
	entry, fra, other := certificate("colonnade:entry/n1"), certificate("colonnade:colo/fra/n1"), certificate("colonnade:colo/iad/n1")
	f := func(c *x509.Certificate, want bool, visited ...string) {
		t.Helper()
		err := checkSource(&hop.Token{Source: "n1", Visited: visited}, c)
		if (err == nil) != want || err != nil && !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("%s after %q: %v", c.URIs[0], visited, err)
		}
	}
	f(entry, true)
	f(fra, false)
	f(certificate("colonnade:entry/n2"), false)

	f(fra, true, "fra/n1")
	f(fra, true, "ams/n1", "fra/n1")
	f(fra, false, "fra/n1", "ams/n1")
	f(other, false, "fra/n1")
	f(entry, false, "fra/n1")
	f(certificate("colonnade:colo/fra/n2"), false, "fra/n1")
	f(fra, false, "fra/")
	f(fra, false, "fra/n1/n1")

	f(fra, true, "n1")
	f(other, true, "ams/n2", "n1")
	f(entry, false, "n1")
	f(fra, false, "n2")
	f(fra, false, "")
	f(fra, false, "/n1")
}
