package acmecert

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"colonnade/forwarding/peertls"
)

// Source has the certificates of a listener made and renewed. Its methods may be called by several goroutines at once.
type Source struct {
	config    Config
	names     []string
	store     *store
	transport *caTransport
	manager   *autocert.Manager
	http      net.Listener // for the challenge http-01; nil = none
	reports   *reports
}

// Open returns the source of certificates for c, with those of an earlier process in force. The authority is asked by Run only.
func Open(c Config) (*Source, error) {
	return open(c, &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: answerTimeout,
		TLSClientConfig: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
	})
}

func open(c Config, transport http.RoundTripper) (*Source, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	names, err := c.names()
	if err != nil {
		return nil, err
	}
	s := &Source{config: c, names: names, transport: newCATransport(transport), reports: newReports(c.Logger)}
	if s.store, err = openStore(c.accountDir(), names, s.renewed, c.Logger); err != nil {
		return nil, err
	}
	s.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: s.store, HostPolicy: autocert.HostWhitelist(names...), Email: c.Email,
		Client: &acme.Client{
			DirectoryURL: c.directory(), UserAgent: "colonnade", HTTPClient: &http.Client{Transport: s.transport}, RetryBackoff: retryNonce,
		},
	}
	return s, s.listen()
}

// renewed forgets why a name had no new certificate.
func (s *Source) renewed(name string) {
	s.transport.clear(name)
	s.reports.clear(name)
}

// accountDir is the directory for one authority, so that a certificate of a test authority is never in force with another one.
func (c *Config) accountDir() string {
	directory := c.directory()
	if u, err := url.Parse(directory); err == nil {
		directory = u.Host + u.Path
	}
	return filepath.Join(c.CacheDir, url.PathEscape(directory))
}

// retryNonce sends a request again whose nonce the authority does not accept any more. Everything else is left to the caller, which
// waits for longer.
func retryNonce(attempt int, _ *http.Request, answer *http.Response) time.Duration {
	if answer.StatusCode == http.StatusBadRequest && attempt <= 3 {
		return 100 * time.Millisecond
	}
	return 0
}

// ServerTLS returns the configuration of the listener: TLS 1.2 or later, HTTP/1.1 or a challenge. A handshake for a name that has no
// certificate, or for none, fails at once.
func (s *Source) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{peertls.ALPN, acme.ALPNProto}, GetCertificate: s.certificate,
	}
}

func (s *Source) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	switch inForce := s.store.current(name); {
	case !slices.Contains(s.names, name):
		return nil, nil // crypto/tls then sends the alert unrecognized_name
	case slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}):
		return s.manager.GetCertificate(hello)
	case inForce == nil:
		return nil, fmt.Errorf("there is no certificate for %s yet", name)
	default:
		return inForce, nil
	}
}

// Run has missing certificates made, renews them, and serves the listener for http-01, until ctx is done.
func (s *Source) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	if s.http != nil {
		handler := s.httpHandler() // from here on, the manager tries http-01 too
		serving.Go(func() { s.serveHTTP(ctx, handler) })
	}
	s.transport.run(ctx)
	defer s.transport.end()
	newAsker(s).run(ctx)
	return nil
}

// State is what is known about the certificate for one name.
type State struct {
	Name            string
	Begins, Expires time.Time // of the certificate in force; zero = there is none
	Problem         string    // why there is none, or why it is not renewed, and what to do; empty = nothing is wrong
}

// States returns the state of each name.
func (s *Source) States() []State {
	var all []State
	for _, name := range s.names {
		one := State{Name: name, Problem: s.reports.problem(name)}
		if inForce := s.store.current(name); inForce != nil {
			one.Begins, one.Expires = inForce.Leaf.NotBefore, inForce.Leaf.NotAfter
		}
		all = append(all, one)
	}
	return all
}

// Expires returns when the first of the certificates expires. It is zero while a name has none.
func (s *Source) Expires() time.Time {
	states := s.States()
	return slices.MinFunc(states, func(a, b State) int { return a.Expires.Compare(b.Expires) }).Expires
}
