package trust_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/analytics"
	"colonnade/discovery/etcd"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
	"colonnade/node"
	"colonnade/onebox"
)

const (
	entryURI = "colonnade:entry/entry-1"
	amsURI   = "colonnade:colo/ams/ams-1"
)

// While two nodes do not accept each other's certificates, clients get an error and the logs of both nodes say why. All
// certificates that are refused are tested in forwarding/server.
func TestTLSPeersRefused(t *testing.T) {
	f := func(name string, status int, change func(*fleettest.SecureFleet), logged ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &fleetLog{}
			f := fleettest.StartSecure(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(1), Logger: log.logger}, "", change)
			for range 2 {
				a := f.Chat(fleettest.ChatBody(1, false))
				if e := a.APIError(t); a.Status != status || e.Code == "" || e.RequestID == "" {
					t.Errorf("answered %d %s, want %d", a.Status, a.Body, status)
				}
			}
			if n := f.Engine("ams").Stats().Served; n != 0 {
				t.Errorf("%d requests were served", n)
			}
			for _, want := range logged {
				testkit.WaitFor(t, fmt.Sprintf("%q in the log", want), func() bool { return strings.Contains(log.text(), want) })
			}
		})
	}
	another := func(uri string) func(*fleettest.SecureFleet) {
		return func(f *fleettest.SecureFleet) { f.Node(uri).Put(tlstest.NewCA(f.T, "another authority"), uri, nil) }
	}
	plain := func(uri string) func(*fleettest.SecureFleet) {
		return func(f *fleettest.SecureFleet) { f.Nodes[uri] = tlstest.Files{} }
	}
	f("another authority's entry", 503, another(entryURI), "it rejected our certificate", "got one for "+entryURI+", issued by")
	f("a colo server without", 503, plain(amsURI), "it does not use TLS: start it with -peer-tls-cert")
}

// fleetLog records the log of all nodes of a fleet.
type fleetLog struct {
	mu  sync.Mutex // guards the field below
	all strings.Builder
}

func (l *fleetLog) logger(string) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *fleetLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *fleetLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// An entry sends no request to a colo server at whose address another server of the fleet answers.
func TestTLSServersSwapped(t *testing.T) {
	t.Parallel()
	log := &fleetLog{}
	f := fleettest.StartSecure(t, onebox.Config{Engine: fleettest.QuickEngine(1), Logger: log.logger}, "", nil)
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Fatalf("answered %d %s", a.Status, a.Body)
	}
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	swapped := map[string]string{f.Colos[0].Address: f.Colos[1].Address, f.Colos[1].Address: f.Colos[0].Address}
	served := f.Engine("ams").Stats().Served + f.Engine("fra").Stats().Served
	testkit.WaitFor(t, "the request to be refused", func() bool {
		for _, s := range f.Colos { // again, since a node may have put its own document back
			key := node.Prefix + "servers/" + s.Colo + "/" + s.Node
			got, err := client.Get(t.Context(), key)
			if err != nil || len(got.Kvs) != 1 {
				return false
			}
			moved := strings.ReplaceAll(string(got.Kvs[0].Value), s.Address, swapped[s.Address])
			_, _ = client.Put(t.Context(), key, moved, clientv3.WithIgnoreLease())
		}
		a := f.Chat(fleettest.ChatBody(1, false))
		served += boolToUint(a.Status == 200)
		return a.Status == 503 && strings.Contains(log.text(), "expected a certificate for "+amsURI+", got one for colonnade:colo/fra/fra-1")
	})
	if n := f.Engine("ams").Stats().Served + f.Engine("fra").Stats().Served; n != served {
		t.Errorf("%d were served, want %d", n, served)
	}
}

func boolToUint(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// However a session over TLS is left, its permit is free within 500 ms.
func TestTLSSessionEndFreesPermit(t *testing.T) {
	t.Parallel()
	f := fleettest.StartSecure(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(1)}, "", nil)
	for name, leave := range map[string]func(*tls.Conn){
		"closed":      func(c *tls.Conn) { c.Close() },
		"cut":         func(c *tls.Conn) { c.NetConn().Close() },
		"reset":       func(c *tls.Conn) { _ = c.NetConn().(*net.TCPConn).SetLinger(0); c.NetConn().Close() },
		"half-closed": func(c *tls.Conn) { _ = c.CloseWrite() },
	} {
		s := session(f)
		s.Say(`{"type":"response.create","response":{"max_output_tokens":100000}}`)
		s.Hear("response.output_text.delta")
		leave(s.NetConn().(*tls.Conn))
		testkit.Within(t, 500*time.Millisecond, name+": the permit is free", func() bool {
			return f.Pool("ams", "demo").Held == 0 && fleettest.InFlight(f.Engine("ams")) == 0
		})
		if request, _ := f.LastEvents(s.Header.Get("x-request-id")); request.Outcome != analytics.OutcomeClientGone {
			t.Errorf("%s: %s", name, request.Outcome)
		}
		s.Close()
	}
}

// session opens a realtime session, and waits for its first event.
func session(f *fleettest.SecureFleet) fleettest.Session {
	f.T.Helper()
	d := websocket.Dialer{HandshakeTimeout: testkit.Timeout, TLSClientConfig: f.ClientTLS}
	ws, answer, err := d.Dial(f.RealtimeURL("demo-realtime"), nil)
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(testkit.Timeout))
	s := fleettest.Session{Conn: ws, T: f.T, Header: answer.Header}
	s.Hear("session.created")
	return s
}
