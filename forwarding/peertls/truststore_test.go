package peertls_test

import (
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
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
			return p.Version() >> 32
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

func TestLoadPeersRefuses(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t, "fleet")
	f := func(change func(tlstest.Files), want ...string) {
		t.Helper()
		files := forwardtest.NewFiles(t, ca, forwardtest.Colo(), nil)
		change(files)
		_, err := peertls.LoadTrustStore(peertls.Files(files), forwardtest.Colo(), slog.New(slog.DiscardHandler))
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v, want %q", err, w)
			}
		}
	}
	missing := func(name string) string { return name + ": no such file" }
	f(func(f tlstest.Files) { f.CA += "x"; tlstest.Write(t, f.CA, nil) }) // another file: nothing is wrong
	f(func(f tlstest.Files) { tlstest.Write(t, f.CA, []byte("nothing")) }, "-peer-tls-ca", "contains no certificate")
	f(func(f tlstest.Files) {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			t.Fatal(err)
		}
		tlstest.Write(t, f.CA, append(text, text[:len(text)/2]...))
	}, "-peer-tls-ca", "only 1 of 2 parts can be parsed")
	f(func(f tlstest.Files) { _, key := ca.Issue("", nil); tlstest.Write(t, f.CA, key) }, "-peer-tls-ca", "part 1 is not a certificate")
	f(func(f tlstest.Files) { f.Put(ca, forwardtest.Entry().String(), nil) }, "-peer-tls-cert", "expected a certificate for colonnade:colo/ams/ams-1, got one for colonnade:entry/entry-1")
	f(func(f tlstest.Files) { f.Put(ca, "", nil) }, "-peer-tls-cert", "names no node")
	f(func(f tlstest.Files) { _, key := ca.Issue("", nil); tlstest.Write(t, f.Key, key) }, "-peer-tls-key", "private key does not match")
	_, err := peertls.LoadTrustStore(peertls.Files{Cert: "cert.pem", Key: "key.pem", CA: "ca.pem"}, forwardtest.Colo(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), missing("ca.pem")) {
		t.Error(err)
	}
}
