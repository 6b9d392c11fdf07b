package acmecert_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"colonnade/forwarding/acmecert"
	"colonnade/forwarding/server"
	"colonnade/internal/acmetest"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
)

// listening is a source on real listeners, with an authority that reaches them.
type listening struct {
	source *acmecert.Source
	server *forwardtest.Drainable
	client *http.Client // reaches the listener for requests by any name
}

// listen opens listeners. ports are those that the authority reaches.
func listen(t *testing.T, ports ...int) *listening {
	t.Helper()
	l := &listening{}
	authority, directory := acmetest.Start(t, func(_ string, port int) (net.Conn, error) {
		for _, open := range ports {
			if port == open {
				return net.Dial("tcp", map[int]string{443: l.server.Address, 80: l.source.HTTPAddr().String()}[port])
			}
		}
		return nil, errors.New("port " + strconv.Itoa(port) + " is closed")
	})
	var err error
	l.source, err = acmecert.Open(acmecert.Config{
		Domains: []string{api}, Directory: authority.Directory(), Roots: acmetest.Pool(directory), CacheDir: t.TempDir(), HTTPListen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.server = forwardtest.ServeConfig(t, server.Config{TLS: l.source.ServerTLS()})
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority.CA.Pool()}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, l.server.Address)
		},
	}
	l.client = &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.source.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.server.Stop(server.DrainTimings{})
	})
	return l
}

// awaitCertificate waits until the listener has a certificate, and sends a request.
func (l *listening) awaitCertificate(t *testing.T) {
	t.Helper()
	testkit.WaitFor(t, "the certificate", func() bool { return !l.source.Expires().IsZero() })
	answer, err := l.client.Get("https://" + api + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); string(body) != "ok" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
}

// The listener for requests answers tls-alpn-01, and ends the connection after the handshake.
func TestChallengeOnTheListenerForRequests(t *testing.T) {
	t.Parallel()
	listen(t, 443).awaitCertificate(t)
}

// The listener for http-01 answers that challenge, and sends browsers to HTTPS.
func TestChallengeOverPlainHTTP(t *testing.T) {
	t.Parallel()
	l := listen(t, 80)
	l.awaitCertificate(t)
	f := func(method, host, path string, status int, want string) {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+l.source.HTTPAddr().String()+path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if got := answer.Header.Get("Location") + string(body); answer.StatusCode != status || !strings.Contains(got, want) || err != nil {
			t.Errorf("%s http://%s%s: %d %q, %v; want %d %q", method, host, path, answer.StatusCode, got, err, status, want)
		}
	}
	f("GET", api, "/v1/models?a=b", 308, "https://api.example.org/v1/models?a=b")
	f("HEAD", "API.example.org:80", "/", 308, "https://api.example.org/")
	f("POST", api, "/v1/chat/completions", 400, "the URL must begin with https://")
	f("GET", "other.example.org", "/", 404, "no such host")
	f("GET", "127.0.0.1", "/", 404, "no such host")
	f("GET", api, "/.well-known/acme-challenge/x", 404, "")
	f("GET", api, "/.well-known/acme-challenge/acme_account+key", 404, "")
	f("GET", "other.example.org", "/.well-known/acme-challenge/x", 403, "")
	for _, target := range []string{"x:.example.net/", "x:@example.net/", "*"} {
		if head := l.plainAnswer(t, "GET "+target+" HTTP/1.1\r\nHost: "+api+"\r\n\r\n"); !strings.HasPrefix(head, "HTTP/1.1 400 ") || strings.Contains(head, "Location") {
			t.Errorf("a request for %s: %q", target, head)
		}
	}
}

// plainAnswer sends a request as it stands to the listener for http-01.
func (l *listening) plainAnswer(t *testing.T, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", l.source.HTTPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(answer)
}

// A source that does not run releases its listener when it is closed.
func TestClose(t *testing.T) {
	t.Parallel()
	config := acmecert.Config{Domains: []string{api}, CacheDir: t.TempDir(), HTTPListen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	source, err := acmecert.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	config.HTTPListen = source.HTTPAddr().String()
	if _, err := acmecert.Open(config); err == nil || !strings.Contains(err.Error(), "(flag -tls-http-listen)") {
		t.Errorf("an address that is taken: %v", err)
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	if source, err = acmecert.Open(config); err != nil {
		t.Fatal(err)
	}
	source.Close()
}
