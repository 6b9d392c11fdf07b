package adminapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"colonnade/worker"
	"colonnade/worker/wire"
)

const (
	requestTimeout = 3 * time.Second // a server waits for etcd for half of that
	leaveTimeout   = 2 * time.Second
	firstPause     = 100 * time.Millisecond // after all servers have failed; doubles up to longestPause
	longestPause   = time.Second
	// conflictTime is how long the name of a worker may be taken at the start: one that was killed stays registered for a TTL.
	conflictTime = 2*wire.TTL + 2*time.Second
)

// Config says which servers register the worker.
type Config struct {
	Servers []string               // URLs of admin listeners, such as http://10.0.0.2:9080; the next one is asked when one does not answer
	Token   func() (string, error) // is called for each request, so that a file may change; see [TokenFile]
	CAFile  string                 // PEM file with the authorities of HTTPS servers; empty = those of the system
	Logger  *slog.Logger           // nil = nothing is logged
}

// client is behind a [worker.Registry].
type client struct {
	c       Config
	servers []string
	http    *http.Client
	wake    chan struct{} // to Run: there is a new state, or an answer is waited for; capacity 1

	mu       sync.Mutex // guards the fields below
	newest   worker.Registration
	number   int64  // of newest, from 1; 0 = there is none yet
	server   int    // index of the server that answered last
	taken    bool   // a server has taken a registration
	served   bool   // a registration with the endpoint was stored
	failure  error  // of the last PUT; nil = there was none
	waits    string // why the server has not stored the last PUT; empty = it has, or does not say why
	stored   int64  // number of the newest state that is stored
	begun    int64  // PUTs
	answered int64  // the newest PUT that has an answer
	inFlight int    // by that answer
	ttl      time.Duration
	progress chan struct{} // is closed and replaced by each answer
}

// New returns the registry of a worker. The error names the setting that is wrong.
func New(c Config) (worker.Registry, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	k := &client{c: c, wake: make(chan struct{}, 1), progress: make(chan struct{}), ttl: wire.TTL}
	if len(c.Servers) == 0 {
		return worker.Registry{}, errors.New("no server is named: give the URL of the admin listener of a colo server or of colonnade serve")
	}
	for _, text := range c.Servers {
		base, err := checkServer(text)
		if err != nil {
			return worker.Registry{}, err
		}
		k.servers = append(k.servers, base)
	}
	authorities, err := readAuthorities(c.CAFile)
	if err != nil {
		return worker.Registry{}, err
	}
	k.http = &http.Client{
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this server alone
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}, DialContext: (&net.Dialer{Timeout: requestTimeout / 2}).DialContext,
			IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
	}
	return worker.Registry{Run: k.run, Set: k.set, Stored: k.awaitStored, InFlight: k.askInFlight, PoolOf: k.poolOf}, nil
}

// checkServer returns a URL without the slash at its end.
func checkServer(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("the URL of a server must be like http://10.0.0.2:9080: http or https, a host and perhaps a port; one is not")
	case u.User != nil:
		return "", fmt.Errorf("the URL of the server %s has a user or a password, which are not used: the token authorises the worker", u.Host)
	case u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return "", fmt.Errorf("the URL of the server %s must end behind its host and port", u.Host)
	}
	return u.Scheme + "://" + u.Host, nil
}

func readAuthorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // those of the system
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificates of authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate of an authority in PEM", file)
	}
	return pool, nil
}

// TokenFile returns a function that reads a token from a file, which has nothing else. The file is read each time, so it may be replaced.
func TokenFile(path string) func() (string, error) {
	return func() (string, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("cannot read the token: %w; make one with: (umask 077; colonnade keys create -role worker > %s)", err, path)
		}
		return checkToken(string(text), "the file "+path)
	}
}

// Token returns a function that returns one token; from says where it is from, for errors.
func Token(token, from string) func() (string, error) {
	return func() (string, error) { return checkToken(token, from) }
}

// checkToken returns a token without the blanks around it. The error does not repeat it.
func checkToken(text, from string) (string, error) {
	token := strings.TrimSpace(text)
	switch {
	case token == "":
		return "", fmt.Errorf("there is no token in %s: write one into it, such as that of colonnade keys create -role worker", from)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s must have one token and nothing else", from)
	}
	return token, nil
}

func (k *client) set(r worker.Registration) {
	k.mu.Lock()
	k.newest = r
	k.number++
	k.mu.Unlock()
	k.wakeUp()
}

func (k *client) wakeUp() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// awaitStored is Stored of the [worker.Registry].
func (k *client) awaitStored(ctx context.Context) error {
	k.mu.Lock()
	want := k.number
	k.mu.Unlock()
	err := k.await(ctx, func() bool { return k.stored >= want })
	if err != nil {
		return fmt.Errorf("no server has confirmed the newest state: %w", err)
	}
	return nil
}

// askInFlight is InFlight of the [worker.Registry]: by the answer to a PUT that begins from now on.
func (k *client) askInFlight(ctx context.Context) (n int, err error) {
	k.mu.Lock()
	want := k.begun + 1
	k.mu.Unlock()
	k.wakeUp()
	err = k.await(ctx, func() bool {
		n = k.inFlight
		return k.answered >= want
	})
	if err != nil {
		return 0, fmt.Errorf("no server has said how many requests are on the engine: %w", err)
	}
	return n, nil
}

// await waits until a condition holds, which is looked at with mu held after each answer.
func (k *client) await(ctx context.Context, holdsLocked func() bool) error {
	for {
		k.mu.Lock()
		holds, progress := holdsLocked(), k.progress
		k.mu.Unlock()
		if holds {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return cmp.Or(k.lastFailure(), context.Cause(ctx))
		}
	}
}

// setFailure notes why no server takes the newest state.
func (k *client) setFailure(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure = err
}

func (k *client) lastFailure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// took takes the answer to a PUT of a state.
func (k *client) took(put, number int64, server int, answer wire.Answer, served bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.server, k.taken, k.failure = server, true, nil
	k.served = k.served || served && answer.Stored
	k.answered, k.inFlight = put, answer.InFlight
	k.waits = ""
	if !answer.Stored && answer.Reason != "" {
		k.waits = fmt.Sprintf("%s has not stored it yet: %s", k.servers[server], answer.Reason)
		k.failure = errors.New(k.waits)
	}
	if answer.Stored {
		k.stored = number
	}
	if ttl := time.Duration(answer.TTLSeconds * float64(time.Second)); ttl >= time.Second && ttl <= time.Minute {
		k.ttl = ttl
	}
	close(k.progress)
	k.progress = make(chan struct{})
}
