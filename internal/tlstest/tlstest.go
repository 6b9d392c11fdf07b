// Package tlstest makes certificate authorities and certificates for tests, in memory and as files.
package tlstest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority.
type CA struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte // of its certificate
}

// NewCA returns a certificate authority.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	template := template(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &CA{t: t, cert: cert, key: key, PEM: encode("CERTIFICATE", der)}
}

// Pool returns a pool with the authority's certificate.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// Issue returns a certificate and its key in PEM. The certificate is valid for 127.0.0.1, localhost and uri, unless that is
// empty, for servers and for clients; change may modify it, or be nil.
func (ca *CA) Issue(uri string, change func(*x509.Certificate)) (certPEM, keyPEM []byte) {
	ca.t.Helper()
	key := newKey(ca.t)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	certPEM, err = ca.Certify(key.Public(), func(leaf *x509.Certificate) {
		if uri != "" {
			u, err := url.Parse(uri)
			if err != nil {
				ca.t.Fatal(err)
			}
			leaf.URIs = []*url.URL{u}
		}
		if change != nil {
			change(leaf)
		}
	})
	if err != nil {
		ca.t.Fatal(err)
	}
	return certPEM, encode("PRIVATE KEY", secret)
}

// Certify returns a certificate for a public key in PEM, which is valid for 127.0.0.1 and localhost; change may modify it, or be nil.
func (ca *CA) Certify(key crypto.PublicKey, change func(*x509.Certificate)) (certPEM []byte, err error) {
	leaf := template("node")
	leaf.DNSNames, leaf.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if change != nil {
		change(leaf)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca.cert, key, ca.key)
	if err != nil {
		return nil, err
	}
	return encode("CERTIFICATE", der), nil
}

// Pair issues a certificate as a tls.Certificate; see [CA.Issue].
func (ca *CA) Pair(uri string, change func(*x509.Certificate)) tls.Certificate {
	ca.t.Helper()
	pair, err := tls.X509KeyPair(ca.Issue(uri, change))
	if err != nil {
		ca.t.Fatal(err)
	}
	return pair
}

// Expired is a change for [CA.Issue] that makes a certificate expired.
func Expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
}

// Files are the paths of a certificate, its key, and the certificates of authorities.
type Files struct{ Cert, Key, CA string }

// NewFiles returns paths in a new directory. The files do not exist.
func NewFiles(t testing.TB) Files {
	t.Helper()
	dir := t.TempDir()
	return Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}
}

// Put issues a certificate and writes it and its key; see [CA.Issue].
func (f Files) Put(ca *CA, uri string, change func(*x509.Certificate)) {
	ca.t.Helper()
	cert, key := ca.Issue(uri, change)
	Write(ca.t, f.Cert, cert)
	Write(ca.t, f.Key, key)
}

// Trust writes the certificates of authorities.
func (f Files) Trust(all ...*CA) {
	all[0].t.Helper()
	var text []byte
	for _, ca := range all {
		text = append(text, ca.PEM...)
	}
	Write(all[0].t, f.CA, text)
}

// Write replaces a file atomically, as tools that renew certificates do.
func Write(t testing.TB, path string, contents []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", contents, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
