// Package acmetest is a certificate authority that speaks ACME (RFC 8555), for tests in one process. It verifies signatures, nonces and
// challenges as an authority must, but knows one account at a time, keeps all in memory, and validates at once.
package acmetest

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/tlstest"
)

// DefaultLifetime is how long the certificates are valid.
const DefaultLifetime = 3 * time.Hour

// Dial connects to port 443 or 80 of a name, as the authority sees it.
type Dial func(name string, port int) (net.Conn, error)

// Authority is a certificate authority. It is an [http.Handler], and an [http.RoundTripper] that calls the handler without a network.
type Authority struct {
	CA   *tlstest.CA
	dial Dial
	url  string

	mu       sync.Mutex // guards the fields below
	lifetime time.Duration
	fault    func(*http.Request) (*Problem, error)
	requests []string // the paths of all requests
	nonces   map[string]bool
	account  *account
	accounts map[string]bool // thumbprints
	orders   []*order
}

// Problem is an answer that refuses a request.
type Problem struct {
	Status     int    `json:"status"`
	Type       string `json:"type"` // such as rateLimited
	Detail     string `json:"detail"`
	RetryAfter string `json:"-"`
}

// order is an order for one name, with its authorization and its challenges.
type order struct {
	name        string
	status      string // pending, ready, valid or invalid
	token       string
	problems    map[string]*Problem // of challenges that failed, by type
	certificate []byte              // in PEM
}

// New returns an authority for the base URL of its requests, such as https://authority.example.
func New(t testing.TB, url string, dial Dial) *Authority {
	t.Helper()
	return &Authority{CA: tlstest.NewCA(t, "acme"), dial: dial, url: url, lifetime: DefaultLifetime, nonces: map[string]bool{}, accounts: map[string]bool{}}
}

// Start returns an authority that listens on loopback, and the certificate of its directory in PEM.
func Start(t testing.TB, dial Dial) (a *Authority, directoryPEM []byte) {
	t.Helper()
	a = New(t, "", dial)
	s := httptest.NewTLSServer(a)
	t.Cleanup(s.Close)
	a.url = s.URL
	return a, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// Pool returns a pool of the certificates in PEM.
func Pool(text []byte) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// Directory returns the URL of the directory.
func (a *Authority) Directory() string { return a.url + "/directory" }

// SetLifetime sets how long later certificates are valid.
func (a *Authority) SetLifetime(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lifetime = d
}

// SetFault sets what becomes of later requests: a problem is the answer; an error breaks the connection. Both nil = the request
// is handled; f nil = all requests are.
func (a *Authority) SetFault(f func(*http.Request) (*Problem, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = f
}

// Requests returns the paths of all requests until now.
func (a *Authority) Requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.requests...)
}

// Orders returns the number of orders until now.
func (a *Authority) Orders() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.orders)
}

// RoundTrip handles a request without a network.
func (a *Authority) RoundTrip(r *http.Request) (*http.Response, error) {
	p, err := a.begin(r)
	if err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	a.answer(w, r, p)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := a.begin(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a.answer(w, r, p)
}

// begin counts a request, and returns its fault.
func (a *Authority) begin(r *http.Request) (*Problem, error) {
	a.mu.Lock()
	a.requests = append(a.requests, r.URL.Path)
	fault := a.fault
	a.mu.Unlock()
	if fault == nil {
		return nil, nil
	}
	return fault(r)
}

func (a *Authority) answer(w http.ResponseWriter, r *http.Request, p *Problem) {
	w.Header().Set("Replay-Nonce", a.newNonce())
	if p == nil {
		p = a.handle(w, r)
	}
	if p == nil {
		return
	}
	if p.RetryAfter != "" {
		w.Header().Set("Retry-After", p.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.document())
}

// document returns the problem with its type as a URN.
func (p *Problem) document() *Problem {
	if p == nil {
		return nil
	}
	d := *p
	d.Type = "urn:ietf:params:acme:error:" + p.Type
	return &d
}

func malformed(format string, args ...any) *Problem {
	return &Problem{Status: http.StatusBadRequest, Type: "malformed", Detail: fmt.Sprintf(format, args...)}
}

// handle answers a request, or returns why it does not.
func (a *Authority) handle(w http.ResponseWriter, r *http.Request) *Problem {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch path[0] {
	case "directory":
		return reply(w, http.StatusOK, map[string]any{
			"newNonce": a.url + "/nonce", "newAccount": a.url + "/account", "newOrder": a.url + "/order",
			"revokeCert": a.url + "/revoke", "keyChange": a.url + "/key", "meta": map[string]any{"termsOfService": a.url + "/terms"},
		})
	case "nonce":
		return nil
	}
	payload, p := a.verify(r)
	if p != nil {
		return p
	}
	if path[0] == "account" {
		w.Header().Set("Location", a.url+"/account/1")
		return reply(w, a.register(), map[string]any{"status": "valid"})
	}
	if path[0] == "order" && len(path) == 1 {
		return a.newOrder(w, payload)
	}
	return a.handleOrder(w, path, payload)
}

// register returns the status for an account, which may be known.
func (a *Authority) register() (status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.accounts[a.account.thumbprint] {
		return http.StatusOK
	}
	a.accounts[a.account.thumbprint] = true
	return http.StatusCreated
}

func reply(w http.ResponseWriter, status int, document any) *Problem {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
	return nil
}
