package node_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/forwarding/acmecert"
	"colonnade/internal/acmetest"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

const webName = "api.example.org"

// servedByName is the settings of a process that requests its certificates from an authority of the test. closed is why the authority
// does not reach the process; nil = it does.
func servedByName(t *testing.T, closed func() error) (*acmetest.Authority, node.ServeConfig) {
	t.Helper()
	c := node.ServeConfig{Config: config(t, &etcdtest.Server{}, ""), Open: true, Documents: filepath.Join(t.TempDir(), "place.yaml")}
	if err := os.WriteFile(c.Documents, []byte("key: models/m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Listen = etcdtest.FreeAddress(t)
	authority, directory := acmetest.Start(t, func(string, int) (net.Conn, error) {
		if err := closed(); err != nil {
			return nil, err
		}
		return net.Dial("tcp", c.Listen)
	})
	c.ACME = acmecert.Config{Domains: []string{webName}, Directory: authority.Directory(), Roots: acmetest.Pool(directory)}
	return authority, c
}

func startServe(t *testing.T, c node.ServeConfig) (r node.Running, stop func()) {
	t.Helper()
	return start(t, func(ctx context.Context, started func(node.Running)) error { return node.RunServe(ctx, c, started) })
}

// getModels sends a request by the name of the process, and returns the answer.
func getModels(t *testing.T, authority *acmetest.Authority, r node.Running) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority.CA.Pool()}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, r.Address)
		},
	}}
	answer, err := client.Get("https://" + webName + "/v1/models")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// certificateOf returns the certificate of a process by its page of documents.
func certificateOf(t *testing.T, r node.Running) node.CertificateState {
	t.Helper()
	var state node.ConfigState
	if err := json.Unmarshal([]byte(page(t, r, "/debug/config")), &state); err != nil || len(state.Certificates) != 1 {
		t.Fatalf("%+v, %v", state.Certificates, err)
	}
	return state.Certificates[0]
}

const expiryMetric = `colonnade_tls_certificate_expiry_timestamp_seconds{listener="public"`

// A process gets its certificate from the authority, reports its expiry, and after a restart serves it without asking again.
func TestServeByName(t *testing.T) {
	t.Parallel()
	authority, c := servedByName(t, func() error { return nil })
	r, stop := startServe(t, c)
	testkit.WaitFor(t, "the certificate", func() bool { return !certificateOf(t, r).Expires.IsZero() })
	if body, err := getModels(t, authority, r); err != nil || !strings.Contains(body, `"data":`) {
		t.Errorf("%s, %v", body, err)
	}
	if got := certificateOf(t, r); got.Name != webName || got.Problem != "" || got.Listener != "public" {
		t.Errorf("page of the certificate: %+v", got)
	}
	if got := page(t, r, "/metrics"); !strings.Contains(got, expiryMetric) || strings.Contains(got, expiryMetric+`} 0`) {
		t.Errorf("no %s in %s", expiryMetric, got)
	}
	stop()
	before := len(authority.Requests())
	r, _ = startServe(t, c)
	if _, err := getModels(t, authority, r); err != nil {
		t.Error(err)
	}
	if got := authority.Requests()[before:]; len(got) > 0 {
		t.Errorf("requests after the restart: %q", got)
	}
}

// A process whose name does not lead to it is ready, and says what is wrong.
func TestServeWithoutCertificate(t *testing.T) {
	t.Parallel()
	authority, c := servedByName(t, func() error { return errors.New("connection refused") })
	r, _ := startServe(t, c)
	testkit.WaitFor(t, "the problem", func() bool { return certificateOf(t, r).Problem != "" })
	got := page(t, r, "/debug/config")
	for _, want := range []string{`"name": "api.example.org"`, "connection refused", "check its A and AAAA records"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "begins") {
		t.Errorf("a certificate that is not there begins: %s", got)
	}
	if got := page(t, r, "/metrics"); !strings.Contains(got, expiryMetric+"} 0\n") {
		t.Errorf("no expiry of 0 in %s", got)
	}
	if got := page(t, r, "/health/ready"); got != "ready\n" && got != "ready" {
		t.Errorf("ready: %s", got)
	}
	if _, err := getModels(t, authority, r); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("handshake: %v", err)
	}
}

func TestServeRefusesSettingsOfACME(t *testing.T) {
	t.Parallel()
	f := func(change func(*node.ServeConfig), want string) {
		t.Helper()
		_, c := servedByName(t, func() error { return nil })
		change(&c)
		err := node.RunServe(t.Context(), c, func(node.Running) { t.Error("it serves") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f(func(c *node.ServeConfig) { c.ACME.Domains = []string{"192.0.2.1"} }, `flag -tls-domain "192.0.2.1": is an IP address`)
	f(func(c *node.ServeConfig) { c.TLS.Cert, c.TLS.Key = "a", "b" }, "flags -tls-domain and -tls-cert exclude each other")
	f(func(c *node.ServeConfig) { c.DataDir = "" }, "flag -tls-domain needs -data-dir")
	f(func(c *node.ServeConfig) { c.ACME.Email = "ops" }, `flag -tls-email "ops": must be an e-mail address`)
	f(func(c *node.ServeConfig) { c.Documents, c.Open, c.Engines = "", false, []string{"http://127.0.0.1:1"} }, "flag -tls-domain without -config: there are no API keys")
	f(func(c *node.ServeConfig) { c.ACME.Domains = nil }, "has no effect without -tls-domain")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f(func(c *node.ServeConfig) { c.ACME.HTTPListen = taken.Addr().String() }, "(flag -tls-http-listen)")
}
