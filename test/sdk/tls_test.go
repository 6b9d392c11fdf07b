package sdk

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/peertls"
	"colonnade/internal/tlstest"
	"colonnade/onebox"
)

// startSecureFleet runs a fleet that serves HTTPS and requires keys. env makes the SDKs trust it.
func startSecureFleet(t *testing.T, drain time.Duration) (f *onebox.Fleet, end func(), env []string) {
	t.Helper()
	ca, files := tlstest.NewCA(t, "web"), tlstest.NewFiles(t)
	files.Put(ca, "", nil)
	files.Trust(ca)
	f, end = startFleetWith(t, onebox.Config{TLS: peertls.CertificateFiles{Cert: files.Cert, Key: files.Key}, Drain: drain})
	if !strings.HasPrefix(f.URL(), "https://") {
		t.Fatalf("the fleet is at %s", f.URL())
	}
	return f, end, []string{"NODE_EXTRA_CA_CERTS=" + files.CA, "SSL_CERT_FILE=" + files.CA}
}

// olderTLS makes a Python script use TLS 1.2. Its blocking WebSockets read in one thread and write in another, which
// Python's ssl module does not support; with TLS 1.3, whose session tickets arrive while the request is written, one
// connection in some hundreds then hangs, with any server.
func olderTLS(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "openssl.cnf")
	const text = "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMaxProtocol = TLSv1.2\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "OPENSSL_CONF=" + path
}

// Over TLS, which the SDKs' realtime classes require, they run unchanged; so does the rest.
func TestScriptsOverTLS(t *testing.T) {
	f, _, env := startSecureFleet(t, 2*time.Second)
	env = append(env, "COLONNADE_EXPECT_401=1")
	check := func(installed, name, path string, more ...string) {
		t.Helper()
		t.Run(path, func(t *testing.T) {
			needs(t, installed)
			out, err := script(t, f, slices.Concat(env, more), name, path)
			if err != nil || !strings.Contains(out, "ok ") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	check(js, node, "js/realtime.mjs")
	check(js, node, "js/openai.mjs")
	check(python, python, "python/realtime.py", olderTLS(t))
	check(python, python, "python/checks.py")
}

// A fleet that stops ends the SDKs' sessions with a close frame, and not with a lost connection.
func TestSessionsThatAreDrained(t *testing.T) {
	drained := func(installed, name, path string, more ...string) {
		t.Helper()
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			needs(t, installed)
			f, end, env := startSecureFleet(t, 300*time.Millisecond)
			s := startScript(t, f, slices.Concat(env, more), name, path)
			s.await("ready\n")
			end()
			if out, err := s.end(); err != nil || !strings.Contains(out, "session drained") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	drained(js, node, "js/drained.mjs")
	drained(python, python, "python/drained.py", olderTLS(t))
}
