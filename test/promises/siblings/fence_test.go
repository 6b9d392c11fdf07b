package siblings_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
)

// slowEngine is an engine whose TLS handshakes take as long as the test wants. So a request that was granted there is not sent yet.
type slowEngine struct {
	net.Listener
	config *tls.Config
	slow   atomic.Bool
	held   chan *heldConn // connections whose handshakes wait
}

// heldConn is a connection whose TLS handshake waits.
type heldConn struct {
	net.Conn
	config *tls.Config
}

func startSlowEngine(t *testing.T) (e *slowEngine, roots string) {
	t.Helper()
	ca := tlstest.NewCA(t, "engines")
	roots = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e = &slowEngine{
		Listener: ln, config: &tls.Config{Certificates: []tls.Certificate{ca.Pair("", nil)}, MinVersion: tls.VersionTLS12},
		held: make(chan *heldConn, 2),
	}
	engine := &http.Server{Handler: http.HandlerFunc(serveBriefly)}
	ended := make(chan error, 1)
	go func() { ended <- engine.Serve(e) }()
	t.Cleanup(func() {
		_ = engine.Close()
		<-ended
	})
	return e, roots
}

// serveBriefly answers everything, and closes the connection.
func serveBriefly(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"chat.completion","choices":[]}`)
}

// Accept returns the next connection whose handshake does not wait.
func (e *slowEngine) Accept() (net.Conn, error) {
	for {
		c, err := e.Listener.Accept()
		if err != nil || !e.slow.Load() {
			return tls.Server(c, e.config), err
		}
		e.held <- &heldConn{c, e.config}
	}
}

// received performs the handshake, and returns what the client sends until it closes the connection.
func (c *heldConn) received(ctx context.Context) ([]byte, error) {
	defer c.Close()
	secure := tls.Server(c.Conn, c.config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	var sent bytes.Buffer
	_, err := io.Copy(&sent, secure)
	return sent.Bytes(), err
}

// A server that was stopped (SIGSTOP) for longer than its lease does not send the requests that it had granted before: neither before
// it has registered again, when its right to grant has lapsed, nor afterwards, when others may have been granted their slots. Then it grants
// them anew. The server is alone in its colo, so the requests cannot go elsewhere.
func TestStoppedServerSendsNothingThatItGranted(t *testing.T) {
	t.Parallel()
	engine, roots := startSlowEngine(t)
	f := proctest.Start(t, proctest.Config{
		Environment: []string{"SSL_CERT_FILE=" + roots},
		Documents: fmt.Sprintf("---\nkey: models/slow\npool: slow\n---\nkey: endpoints/%s/slow-1\nurl: https://%s\npool: slow\n"+
			"concurrency: 4\nhealth: {interval: 1h}\n", proctest.Colo, engine.Addr()),
	})
	server := f.Servers[0]
	ask(t, f.Entries[0], "slow")

	engine.slow.Store(true)
	statuses := make(chan int, 2)
	for range 2 {
		go func() {
			status, _, _ := testkit.Post("http://"+f.Entries[0].Address+"/v1/chat/completions", `{"model":"slow","messages":[]}`)
			statuses <- status
		}()
	}
	first, second := <-engine.held, <-engine.held
	server.Pause()
	registered := registration(t, f, server)
	testkit.WaitFor(t, "the lease to expire", func() bool { return !registered() })
	engine.slow.Store(false)
	server.CutEtcd()
	server.Resume()
	if sent, err := first.received(t.Context()); err != nil || len(sent) > 0 {
		t.Errorf("before it has registered again, the server has sent %q, %v", sent, err)
	}
	server.HealEtcd()
	testkit.WaitFor(t, "the server to register again", registered)
	server.WaitReady()
	if sent, err := second.received(t.Context()); err != nil || len(sent) > 0 {
		t.Errorf("after it has registered again, the server has sent %q, %v", sent, err)
	}
	for range 2 {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("a request that was granted again got %d", status)
		}
	}
	f.CheckRest()
}

// registration returns a function that reports whether a server is registered.
func registration(t *testing.T, f *proctest.Fleet, n *proctest.Node) func() bool {
	t.Helper()
	client := f.Etcd.Client(t)
	return func() bool {
		got, err := client.Get(t.Context(), etcd.DefaultPrefix+"servers/"+proctest.Colo+"/"+n.Name)
		if err != nil {
			t.Error(err)
			return true
		}
		return got.Count > 0
	}
}
