package adminapi_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
	"colonnade/worker"
	"colonnade/worker/adminapi"
	"colonnade/worker/wire"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

const token = "cn_gpus_ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// server answers registrations.
type server struct {
	*httptest.Server
	mu      sync.Mutex // guards the fields below
	status  int        // of the next answers; 0 = 200
	message string     // of the next errors
	answer  wire.Answer
	puts    []wire.Request
	deleted []string // queries
	wrong   string   // what was wrong with a request
}

func newServer(t *testing.T, start func(http.Handler) *httptest.Server) *server {
	t.Helper()
	s := &server{answer: wire.Answer{Colo: "ams", TTLSeconds: 1, Stored: true}}
	s.Server = start(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+token {
		s.wrong = "no token in " + r.Method + " " + r.URL.Path
	}
	switch {
	case s.status != 0:
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, `{"error": {"message": "`+s.message+`"}}`)
	case r.Method == http.MethodDelete && r.URL.Path == wire.Path+"gpu-1":
		s.deleted = append(s.deleted, r.URL.RawQuery)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && r.URL.Path == wire.PoolPath:
		_ = json.NewEncoder(w).Encode(wire.PoolOfModel{Model: r.URL.Query().Get("model"), Pool: "pool of " + r.URL.Query().Get("model")})
	case r.Method == http.MethodPut && r.URL.Path == wire.Path+"gpu-1":
		var body wire.Request
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			s.wrong = err.Error()
		}
		s.puts = append(s.puts, body)
		_ = json.NewEncoder(w).Encode(s.answer)
	default:
		s.wrong = r.Method + " " + r.URL.Path
	}
}

// answers changes what the server answers.
func (s *server) answers(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.puts)
}

// run is a registry in use.
type run struct {
	worker.Registry
	t      *testing.T
	log    *testkit.SyncBuffer
	cancel context.CancelFunc
	ended  chan error
}

func begin(t *testing.T, c adminapi.Config) *run {
	t.Helper()
	r := &run{t: t, log: &testkit.SyncBuffer{}, ended: make(chan error, 1)}
	if c.Token == nil {
		c.Token = adminapi.Token(token, "the test")
	}
	c.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), r.log), nil))
	var err error
	if r.Registry, err = adminapi.New(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

func state(endpoint string) worker.Registration {
	r := worker.Registration{Worker: fleet.Worker{Node: "gpu-1", Colo: "ams", Boot: "b&1"}}
	if endpoint != "" {
		r.Endpoint = document.Raw{Key: "endpoints/ams/gpu-1", Value: []byte(endpoint)}
		r.Models = []document.Raw{{Key: "models/m", Value: []byte("# m\n")}}
	}
	return r
}

func (r *run) stored(s worker.Registration) {
	r.t.Helper()
	r.Set(s)
	ctx, cancel := context.WithTimeout(r.t.Context(), testkit.Timeout)
	defer cancel()
	if err := r.Stored(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// end waits for the end of Run, and checks that the token was shown nowhere.
func (r *run) end() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if text := r.log.String(); strings.Contains(text, token[len(token)-10:]) || err != nil && strings.Contains(err.Error(), token[len(token)-10:]) {
			r.t.Errorf("the token is shown: %v\n%s", err, text)
		}
		return err
	case <-time.After(testkit.Timeout):
		r.t.Fatal("it does not end")
		return nil
	}
}

// A state is sent at once when it changes, then renewed again and again, and removed at the end by the process that has put it.
func TestRegistrationIsRenewed(t *testing.T) {
	t.Parallel()
	s := newServer(t, httptest.NewServer)
	r := begin(t, adminapi.Config{Servers: []string{s.URL + "/"}})
	r.stored(state(""))
	r.stored(state("# serves\n"))
	s.answers(func() {
		if first, last := s.puts[0], s.puts[len(s.puts)-1]; first.Endpoint != nil || last.Endpoint.Text != "# serves\n" || last.Models[0] != (wire.Document{Key: "models/m", Text: "# m\n"}) ||
			!strings.Contains(string(last.Worker), `"boot":"b`) {
			t.Errorf("sent %+v", s.puts)
		}
	})
	before := s.count()
	testkit.WaitFor(t, "renewals", func() bool { return s.count() >= before+3 })
	if pool, err := r.PoolOf(t.Context(), "meta/llama 3"); err != nil || pool != "pool of meta/llama 3" {
		t.Errorf("%q, %v", pool, err)
	}
	s.answers(func() { s.answer.InFlight = 7 })
	if n, err := r.InFlight(t.Context()); err != nil || n != 7 {
		t.Errorf("in flight: %d, %v", n, err)
	}
	r.cancel()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	s.answers(func() {
		if len(s.deleted) != 1 || s.deleted[0] != "boot=b%261" || s.wrong != "" {
			t.Errorf("deleted %q; wrong: %s", s.deleted, s.wrong)
		}
	})
}

// A state that the server could not store is not reported as stored, and sent again until it is.
func TestStateThatIsNotStored(t *testing.T) {
	t.Parallel()
	s := newServer(t, httptest.NewServer)
	s.answer.Stored = false
	r := begin(t, adminapi.Config{Servers: []string{s.URL}})
	r.Set(state("# 1\n"))
	testkit.WaitFor(t, "several attempts", func() bool { return s.count() >= 3 })
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Stored(done); err == nil {
		t.Error("it counts as stored")
	}
	s.answers(func() { s.answer.Stored = true })
	r.stored(state("# 2\n"))
	r.cancel()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// The next server is asked when one does not answer, is in trouble, or refuses what another one takes.
func TestNextServer(t *testing.T) {
	t.Parallel()
	one, two := newServer(t, httptest.NewServer), newServer(t, httptest.NewServer)
	gone := httptest.NewServer(nil)
	gone.Close()
	r := begin(t, adminapi.Config{Servers: []string{gone.URL, one.URL, two.URL}})
	r.stored(state("# 1\n"))
	if one.count() == 0 || two.count() != 0 {
		t.Errorf("sent %d and %d times", one.count(), two.count())
	}
	one.answers(func() { one.status, one.message = http.StatusServiceUnavailable, "etcd is away" })
	r.stored(state("# 2\n"))
	two.answers(func() { two.status, two.message = http.StatusForbidden, "no" })
	one.answers(func() { one.status = 0 })
	r.stored(state("# 3\n"))
	r.cancel()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// Once a server has taken the engine, which serves from then on, no error ends the registration. Each has one line in the log.
func TestErrorsLater(t *testing.T) {
	t.Parallel()
	s := newServer(t, httptest.NewServer)
	r := begin(t, adminapi.Config{Servers: []string{s.URL}})
	r.stored(state("# 1\n"))
	for status, text := range map[int]string{400: "answered 400: no", 401: "refuses the token (401): no", 403: "(403): no", 404: "(404): no", 409: "answered 409: no", 500: "answered 500: no"} {
		s.answers(func() { s.status, s.message = status, "no" })
		testkit.WaitFor(t, text, func() bool { return strings.Contains(r.log.String(), text) })
		s.answers(func() { s.status = 0 })
		r.stored(state("# after " + text + "\n"))
		if n := strings.Count(r.log.String(), text); n != 1 {
			t.Errorf("%q is logged %d times", text, n)
		}
	}
	r.cancel()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// An error from the start ends Run, and says what to do.
func TestErrorsFromTheStart(t *testing.T) {
	t.Parallel()
	f := func(status int, want ...string) {
		t.Helper()
		s := newServer(t, httptest.NewServer)
		s.status, s.message = status, "because"
		r := begin(t, adminapi.Config{Servers: []string{s.URL}})
		r.Set(state("# 1\n"))
		err := r.end()
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%d: got %v, want %q", status, err, text)
			}
		}
	}
	f(401, "refuses the token (401): because")
	f(403, "refuses the token (403): because")
	f(404, "registers no engines (404): because", "colonnade serve")
	f(501, "registers no engines (501): because")
	f(400, "answered 400: because")
	f(307, "registers no engines (307)") // the token is not sent elsewhere
}

// An answer that is no admin listener's is not repeated: its advice is for other clients.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":"the base URL must end in /v1","code":"unknown_url"}`))
	}))
	defer s.Close()
	r := begin(t, adminapi.Config{Servers: []string{s.URL}})
	r.Set(state("# 1\n"))
	if err := r.end(); err == nil || !strings.HasPrefix(err.Error(), s.URL+" registers no engines (404); give the URL of the admin listener") {
		t.Errorf("got %v", err)
	}
}

// An endpoint that is refused when its engine answers is an error from the start, also if the worker itself was taken before.
func TestEndpointIsRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, httptest.NewServer)
	r := begin(t, adminapi.Config{Servers: []string{s.URL}})
	r.stored(state(""))
	s.answers(func() { s.status, s.message = 403, "no" }) // of the token, which an operator may replace
	testkit.WaitFor(t, "the refusal", func() bool { return strings.Contains(r.log.String(), "(403): no") })
	s.answers(func() { s.status, s.message = 400, "a file has it" })
	r.Set(state("# 1\n"))
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "answered 400: a file has it") {
		t.Errorf("got %v", err)
	}
}

// A wait for a server that refuses the newest state ends with its reason.
func TestWaitForARefusal(t *testing.T) {
	t.Parallel()
	s := newServer(t, httptest.NewServer)
	r := begin(t, adminapi.Config{Servers: []string{s.URL}})
	r.stored(state("# 1\n"))
	s.answers(func() { s.status, s.message = 409, "a file has it" })
	r.Set(state("# 2\n"))
	testkit.WaitFor(t, "the refusal", func() bool { return strings.Contains(r.log.String(), "a file has it") })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.Stored(ctx); err == nil || !strings.Contains(err.Error(), "answered 409: a file has it") {
		t.Errorf("got %v", err)
	}
	s.answers(func() { s.status = 0 })
	r.stored(state("# 3\n"))
}

// A server over HTTPS is believed by its certificate alone.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	quiet := func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		return s
	}
	s := newServer(t, quiet)
	r := begin(t, adminapi.Config{Servers: []string{s.URL}})
	r.Set(state("# 1\n"))
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "cannot verify the certificate of "+s.URL) {
		t.Errorf("got %v", err)
	}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	r = begin(t, adminapi.Config{Servers: []string{s.URL}, CAFile: authority})
	r.stored(state("# 1\n"))
	r.cancel()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	plain := newServer(t, httptest.NewServer)
	r = begin(t, adminapi.Config{Servers: []string{strings.Replace(plain.URL, "http:", "https:", 1)}})
	r.Set(state("# 1\n"))
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "does not speak HTTPS") {
		t.Errorf("got %v", err)
	}
}

// A token is read from its file for each request. An error does not show it.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := adminapi.TokenFile(path)
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	write("\n" + token + "\n")
	if got, err := read(); got != token || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, wrong := range []string{"", " \n", token + "\n" + token, token + " x", "gpus " + token, "töken-" + token} {
		write(wrong)
		if got, err := read(); got != "" || err == nil || strings.Contains(err.Error(), token[len(token)-10:]) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %q, %v", wrong, got, err)
		}
	}
}

// A server's URL that cannot be right is refused before anything is sent, without a password that it has.
func TestServerURLs(t *testing.T) {
	t.Parallel()
	f := func(url, want string) {
		t.Helper()
		_, err := adminapi.New(adminapi.Config{Servers: []string{url}, Token: adminapi.Token(token, "the test")})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", url, err)
		}
	}
	f("", "must be like http://10.0.0.2:9080")
	f("10.0.0.2:9080", "must be like")
	f("ftp://10.0.0.2", "must be like")
	f("http://user:secret@10.0.0.2:9080", "has a user or a password")
	f("http://10.0.0.2:9080/api", "must end behind its host and port")
	f("http://10.0.0.2:9080?key=secret", "must end behind")
	if _, err := adminapi.New(adminapi.Config{}); err == nil || !strings.Contains(err.Error(), "no server is named") {
		t.Errorf("got %v", err)
	}
	if _, err := adminapi.New(adminapi.Config{Servers: []string{"http://10.0.0.2"}, CAFile: "/nowhere"}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("got %v", err)
	}
}
