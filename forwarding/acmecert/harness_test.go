package acmecert_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/acmecert"
	"colonnade/internal/acmetest"
	"colonnade/internal/testkit"
)

const (
	api   = "api.example.org"
	chat  = "chat.example.org"
	renew = acmetest.DefaultLifetime * 2 / 3 // after which a certificate is renewed, before a little jitter
)

// place is a machine with a listener, an authority that reaches it, and no network. It lives in the bubble of a synctest.
type place struct {
	t         *testing.T
	authority *acmetest.Authority
	config    acmecert.Config
	source    *acmecert.Source
	plain     http.Handler // at port 80 of each name; nil = none
	log       testkit.SyncBuffer
	stop      func()

	mu        sync.Mutex       // guards the field below
	unreached map[string]error // why the authority does not reach port 443 of a name
}

func newPlace(t *testing.T, names ...string) *place {
	p := &place{t: t, unreached: map[string]error{}}
	p.authority = acmetest.New(t, "https://authority.example", p.dial)
	p.config = acmecert.Config{
		Domains: names, Directory: p.authority.Directory(), CacheDir: filepath.Join(t.TempDir(), "acme"),
		Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
	}
	return p
}

// dial connects the authority to the listener.
func (p *place) dial(name string, port int) (net.Conn, error) {
	switch err := p.whyUnreached(name); {
	case port == 80 && p.plain != nil:
		return p.connectPlain(), nil
	case port != 443:
		return nil, errors.New("connection refused")
	case err != nil:
		return nil, err
	}
	return p.connect(), nil
}

func (p *place) whyUnreached(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unreached[name]
}

// reach sets why the authority does not reach port 443 of a name from now on; nil = it does.
func (p *place) reach(name string, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreached[name] = why
}

// connectPlain connects a client to the listener for http-01, for one request.
func (p *place) connectPlain() net.Conn {
	here, there := net.Pipe()
	go func() {
		defer here.Close()
		r, err := http.ReadRequest(bufio.NewReader(here))
		if err != nil {
			p.t.Error(err)
			return
		}
		w := httptest.NewRecorder()
		p.plain.ServeHTTP(w, r)
		answer := w.Result()
		answer.ProtoMinor = 0
		_ = answer.Write(here)
	}()
	return there
}

// connect connects a client to the listener, which ends each connection after the handshake.
func (p *place) connect() net.Conn {
	here, there := net.Pipe()
	config := p.source.ServerTLS()
	go func() {
		c := tls.Server(here, config)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_ = c.Handshake()
		c.Close()
	}()
	return there
}

// open opens a source that does not run.
func (p *place) open() {
	p.t.Helper()
	var err error
	if p.source, err = acmecert.OpenOver(p.config, p.authority); err != nil {
		p.t.Fatal(err)
	}
}

// run runs the source until stop is called, at the latest at the end of the test.
func (p *place) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.source.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	})
	p.t.Cleanup(p.stop)
	synctest.Wait()
}

func (p *place) start() {
	p.t.Helper()
	p.open()
	p.run()
}

// handshake performs the handshake of a client, and returns the serial number of the certificate, which it has verified.
func (p *place) handshake(name string, protocols ...string) (*big.Int, error) {
	raw := p.connect()
	defer raw.Close()
	c := tls.Client(raw, &tls.Config{ServerName: name, NextProtos: protocols, InsecureSkipVerify: true}) // verified below
	began := time.Now()
	err := c.Handshake()
	if took := time.Since(began); took > 0 {
		p.t.Errorf("the handshake for %q waited for %v", name, took)
	}
	if err != nil {
		return nil, err
	}
	leaf := c.ConnectionState().PeerCertificates[0]
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: p.authority.CA.Pool()})
	return leaf.SerialNumber, err
}

// serial is handshake for a name that must have a certificate.
func (p *place) serial(name string) *big.Int {
	p.t.Helper()
	got, err := p.handshake(name)
	if err != nil {
		p.t.Fatalf("handshake for %s: %v", name, err)
	}
	return got
}

// refuses expects that a handshake fails.
func (p *place) refuses(name, want string, protocols ...string) {
	p.t.Helper()
	if _, err := p.handshake(name, protocols...); err == nil || !strings.Contains(err.Error(), want) {
		p.t.Errorf("handshake for %q: %v, want %q", name, err, want)
	}
}

func (p *place) state(name string) acmecert.State {
	p.t.Helper()
	for _, s := range p.source.States() {
		if s.Name == name {
			return s
		}
	}
	p.t.Fatalf("no state of %s", name)
	return acmecert.State{}
}

// warnings returns the lines that say why there is no certificate.
func (p *place) warnings() (lines []string) {
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// warns expects one warning, with these parts.
func (p *place) warns(want ...string) {
	p.t.Helper()
	got := p.warnings()
	if len(got) != 1 {
		p.t.Errorf("%d warnings, want 1: %q", len(got), got)
		return
	}
	for _, part := range want {
		if !strings.Contains(got[0], part) {
			p.t.Errorf("warning %s: want %q", got[0], part)
		}
	}
}

// requested returns the number of requests to resources of the authority, by the beginning of their paths.
func (p *place) requested(prefix string) (n int) {
	for _, path := range p.authority.Requests() {
		if strings.HasPrefix(path, prefix) {
			n++
		}
	}
	return n
}

// expired reports whether an error is about the dates of a certificate.
func expired(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

var errAway = fmt.Errorf("dial tcp: %w", errors.New("no route to host"))
