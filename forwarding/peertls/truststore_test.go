package peertls_test

import (
	"crypto/x509"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/peertls"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
)

// A certificate that others would refuse does not replace one that they believe; once they would believe it, it does.
func TestPeersKeepWhatIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, other := tlstest.NewCA(t, "fleet"), tlstest.NewCA(t, "other")
		files := forwardtest.NewFiles(t, ca, forwardtest.Entry(), nil)
		p, err := peertls.LoadTrustStore(peertls.Files(files), forwardtest.Entry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		again := func() uint64 {
			time.Sleep(time.Second)
			return p.Edition() >> 32
		}
		f := func(what string, put func(), want uint64) {
			t.Helper()
			put()
			if got := again(); got != want {
				t.Errorf("%s: certificate %d is in force, want %d", what, got, want)
			}
		}
		f("expired", func() { files.Put(ca, forwardtest.Entry().String(), tlstest.Expired) }, 1)
		f("for servers only", func() {
			files.Put(ca, forwardtest.Entry().String(), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
		}, 1)
		f("another node's", func() { files.Put(ca, forwardtest.Colo().String(), nil) }, 1)
		f("of an authority that is not believed", func() { files.Put(other, forwardtest.Entry().String(), nil) }, 1)
		f("which is believed then", func() { files.Trust(ca, other) }, 2)
	})
}
