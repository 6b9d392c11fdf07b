package trust_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/analytics"
	"colonnade/discovery/etcd"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
	"colonnade/internal/wiretest"
	"colonnade/node"
	"colonnade/onebox"
)

const (
	entryURI = "colonnade:entry/entry-1"
	amsURI   = "colonnade:colo/ams/ams-1"
)

// A node that cannot show who it is serves nobody and is served by nobody: clients get an honest error, and the logs of
// both sides say why.
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
		return func(f *fleettest.SecureFleet) { f.Node(uri).Put(tlstest.NewCA(f.T, "somebody else"), uri, nil) }
	}
	expired := func(uri string) func(*fleettest.SecureFleet) {
		return func(f *fleettest.SecureFleet) { f.Node(uri).Put(f.FleetCA, uri, tlstest.Expired) }
	}
	plain := func(uri string) func(*fleettest.SecureFleet) {
		return func(f *fleettest.SecureFleet) { f.Nodes[uri] = tlstest.Files{} }
	}
	f("another authority's entry", 503, another(entryURI), "it does not believe our certificate", "got one for "+entryURI+", issued by")
	f("another authority's colo server", 503, another(amsURI), "it does not believe our certificate", "got one for "+amsURI+", issued by")
	f("an entry's expired", 503, expired(entryURI), "has expired: others will refuse it", "it does not believe our certificate")
	f("a colo server's expired", 503, expired(amsURI), "has expired: others will refuse it", "certificate has expired or is not yet valid")
	f("an entry without", 503, plain(entryURI), "it may speak TLS: then start this entry with -peer-tls-cert", "it speaks plain HTTP: if it is a node of this fleet, start it with -peer-tls-cert")
	f("a colo server without", 503, plain(amsURI), "it speaks no TLS: start it with -peer-tls-cert")
}

// fleetLog keeps what the nodes of one fleet log.
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

// A server at whose address another one of the fleet stands is not the one that was meant.
func TestTLSPeersMixedUp(t *testing.T) {
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
		for _, s := range f.Colos { // again, since a node may have put its own word back
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

// Certificates and authorities are replaced while the fleet is busy, and nobody notices: not at the entry's listener, nor
// between the nodes.
func TestTLSRotation(t *testing.T) {
	t.Parallel()
	f := fleettest.StartSecure(t, onebox.Config{Engine: fleettest.QuickEngine(8)}, "", nil)
	f.WatchShared(8)
	after := tlstest.NewCA(t, "after")
	stop := make(chan struct{})
	var busy sync.WaitGroup
	var answered atomic.Int64
	for n := range 4 {
		busy.Go(func() {
			// Half of the clients keep their connections, the others open one for each request.
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: f.ClientTLS.Clone(), DisableKeepAlives: n%2 == 0}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, err := postBy(f, client, fleettest.ChatBody(3, n < 2))
				if err != nil || a.Err != nil || a.Status != 200 {
					t.Errorf("during the rotation: %v, %v, %d %.300s", err, a.Err, a.Status, a.Body)
					return
				}
				answered.Add(1)
			}
		})
	}
	step := func() {
		time.Sleep(1300 * time.Millisecond) // files are looked at each second
		answered.Store(0)
		testkit.WaitFor(t, "an answer", func() bool { return answered.Load() > 0 || t.Failed() })
	}
	step()
	for _, files := range f.Nodes {
		files.Trust(f.FleetCA, after)
	}
	step()
	for uri, files := range f.Nodes {
		files.Put(after, uri, nil)
	}
	f.WebFiles.Put(f.WebCA, "", nil)
	step()
	for _, files := range f.Nodes {
		files.Trust(after)
	}
	step()
	close(stop)
	busy.Wait()
}

// postBy sends a chat completion through a client, and reads the whole answer.
func postBy(f *fleettest.SecureFleet, client *http.Client, body string) (wiretest.Response, error) {
	other := *f.Fleet
	other.Client = client
	return other.Post(context.Background(), "/chat/completions", body)
}

// However a client of a session leaves that came by TLS, its permit is free a moment later; and a session that we end, it
// hears of.
func TestTLSRealtimeEnds(t *testing.T) {
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
	f.InjectFault(simengine.FaultCutAtChunk, 1)
	s := session(f)
	s.Say(`{"type":"response.create"}`)
	s.ExpectClose(1011, "the inference engine failed")
	s.Close()

	s = session(f)
	go func() { _ = f.End("entry-1") }()
	s.ExpectClose(1001, "")
	if err := f.End("entry-1"); err != nil {
		t.Error(err)
	}
}

// session opens a realtime session, and waits until the engine has begun it.
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
