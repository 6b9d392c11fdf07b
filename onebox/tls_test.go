package onebox_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
	"colonnade/node"
	"colonnade/onebox"
)

// secureFleet is a fleet that speaks TLS with clients, and of which each node has files of its own.
type secureFleet struct {
	*testFleet
	tb     testing.TB
	public *tls.Config // a client's
	web    struct {
		ca    *tlstest.CA
		files tlstest.Files
	}
	fleet *tlstest.CA
	nodes map[string]tlstest.Files // by the URI of the node
}

// startSecureFleet runs a fleet with TLS everywhere. change, if there is one, spoils the files before the fleet starts.
func startSecureFleet(t testing.TB, c onebox.Config, documents string, change func(*secureFleet)) *secureFleet {
	t.Helper()
	web, files := tlstest.NewCA(t, "web"), tlstest.NewFiles(t)
	files.Put(web, "", nil)
	c.TLS = forwarding.CertificateFiles{Cert: files.Cert, Key: files.Key}
	f := &secureFleet{
		tb:     t,
		public: &tls.Config{RootCAs: web.Pool(), ServerName: "localhost"},
		fleet:  tlstest.NewCA(t, "fleet"), nodes: map[string]tlstest.Files{},
	}
	f.web.ca, f.web.files = web, files
	if c.Colos == nil {
		c.Colos = []string{"ams", "fra"}
	}
	f.node("colonnade:entry/entry-1").Put(f.fleet, "colonnade:entry/entry-1", nil)
	for _, colo := range c.Colos {
		uri := "colonnade:colo/" + colo + "/" + colo + "-1"
		f.node(uri).Put(f.fleet, uri, nil)
	}
	for _, node := range f.nodes {
		node.Trust(f.fleet)
	}
	if change != nil {
		change(f)
	}
	c.PeerTLS = func(node forwarding.Identity) forwarding.PeerFiles {
		files := f.nodes[node.String()]
		return forwarding.PeerFiles{Cert: files.Cert, Key: files.Key, CA: files.CA}
	}
	if documents != "" {
		documents = "\n---\n" + documents
	}
	// A busy machine may take its time for a handshake.
	f.testFleet = startFleet(t, c, "key: defaults\nmodel: {timeouts: {connect: 30s}}"+documents)
	f.client.Transport.(*http.Transport).TLSClientConfig = f.public
	return f
}

// node returns the files of a node.
func (f *secureFleet) node(uri string) tlstest.Files {
	files, ok := f.nodes[uri]
	if !ok {
		files = tlstest.NewFiles(f.tb)
		f.nodes[uri] = files
	}
	return files
}

// secureWire is a client's bare connection with TLS.
type secureWire struct {
	*tls.Conn
	br *bufio.Reader
}

// begin sends a chat completion over a connection of its own.
func (f *secureFleet) begin(body string, lines ...string) *secureWire {
	f.t.Helper()
	c, err := tls.Dial("tcp", f.Entry.Address, f.public)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		len(body), strings.Join(append(lines, ""), "\r\n"), body)
	return &secureWire{Conn: c, br: bufio.NewReader(c)}
}

// goAway leaves in one of the ways in which clients with TLS do.
func (w *secureWire) goAway(n int) {
	tcp := w.NetConn().(*net.TCPConn)
	switch n % 4 {
	case 0:
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	case 1:
		_ = w.Close()
	case 2:
		_ = tcp.Close()
	case 3:
		_ = w.CloseWrite() // and waits for the server's word, as asyncio does
	}
}

// A fleet serves everything over TLS, from the client to the colo.
func TestTLSEverywhere(t *testing.T) {
	t.Parallel()
	f := startSecureFleet(t, onebox.Config{Engine: quick(2)}, "", nil)
	if !strings.HasPrefix(f.URL(), "https://") {
		t.Fatalf("URL %s", f.URL())
	}
	f.watchBeside(8)
	if a := f.chat(chatBody(3, false)); a.Status != 200 || a.Err != nil || !strings.Contains(a.Body, `"usage"`) {
		t.Errorf("chat: %+v", a)
	}
	if a := f.chat(chatBody(3, true)); a.Status != 200 || a.Err != nil || !strings.HasSuffix(a.Body, "data: [DONE]\n\n") {
		t.Errorf("stream: %+v", a)
	}
	a, err := f.post(t.Context(), "/embeddings", `{"model":"demo-embed","input":"`+strings.Repeat("words ", 50000)+`"}`)
	if err != nil || a.Status != 200 || !strings.Contains(a.Body, `"embedding"`) {
		t.Errorf("embeddings: %v, %.200v", err, a)
	}
	s := f.session()
	s.say(`{"type":"response.create"}`)
	s.hear("response.done")
	s.hangUp(4001, "enough")
	s.ends(4001, "")
	request, inference := f.lastEvents(s.header.Get("x-request-id"))
	if request.Outcome != analytics.OutcomeCompleted || inference.Outcome != analytics.OutcomeCompleted || inference.Reason != "close_4001" {
		t.Errorf("events: %+v, %+v", request, inference)
	}
	s.Close()
	metrics, err := http.Get("http://" + f.Entry.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	text, _ := io.ReadAll(metrics.Body)
	for _, listener := range []string{"public", "peer"} {
		if want := `colonnade_tls_certificate_expiry_timestamp_seconds{listener="` + listener + `"} 1.`; !strings.Contains(string(text), want) {
			t.Errorf("no metric %s", want)
		}
	}
	page, err := http.Get("http://" + f.Entry.Admin + "/debug/config")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	var said node.ConfigState
	if err := json.NewDecoder(page.Body).Decode(&said); err != nil || len(said.Unreached) != 0 {
		t.Errorf("%v: %+v", err, said)
	}
	for i, listener := range []string{"public", "peer"} {
		if len(said.Certificates) != 2 || said.Certificates[i].Listener != listener || !said.Certificates[i].Expires.After(time.Now()) || !said.Certificates[i].Begins.Before(time.Now()) {
			t.Errorf("certificates: %+v", said.Certificates)
		}
	}
}

// Clients with TLS that leave free what they hold, wherever their request is.
func TestTLSClientsLeave(t *testing.T) {
	t.Parallel()
	const slots = 4
	f := startSecureFleet(t, onebox.Config{Colos: []string{"ams"}, Engine: simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: time.Second}}, roomy, nil)
	f.watchBeside(8)
	ams := f.engine("ams")
	free := func() bool {
		return inHand(ams) == 0 && f.pool("ams", "demo").Held == 0 && f.pool("ams", "demo").Queued == 0
	}
	var streams, waiting []*secureWire
	for range slots {
		w := f.begin(chatBody(64, true)) // a minute
		streams = append(streams, w)
		if _, err := w.br.ReadString('{'); err != nil { // the first event
			t.Fatal(err)
		}
	}
	for n := range 2 * slots {
		waiting = append(waiting, f.begin(chatBody(1, n%2 == 0)))
	}
	testkit.WaitFor(t, "the others to wait", func() bool { return f.pool("ams", "demo").Queued == 2*slots })
	served := ams.Stats().Served
	for n, w := range waiting {
		w.goAway(n)
	}
	testkit.Within(t, 500*time.Millisecond, "those who left the queue are gone", func() bool { return f.pool("ams", "demo").Queued == 0 })
	for n, w := range streams {
		w.goAway(n)
	}
	testkit.Within(t, 500*time.Millisecond, "the engine is rid of the streams", free)

	f.fault(simengine.FaultStallHead, 0)
	var silent []*secureWire
	for n := range slots {
		silent = append(silent, f.begin(chatBody(1, n%2 == 0)))
	}
	testkit.WaitFor(t, "the engine to have them all", func() bool { return inHand(ams) == slots })
	for n, w := range silent {
		w.goAway(n)
	}
	testkit.Within(t, 500*time.Millisecond, "the engine is rid of those before their first byte", free)
	if n := ams.Stats().Served - served; n != 0 {
		t.Errorf("%d requests were served of clients that had left", n)
	}
}

// A client with TLS that takes nothing of its stream is let go of, and its connection's end waits for nobody.
func TestTLSClientStalls(t *testing.T) {
	t.Parallel()
	f := startSecureFleet(t, onebox.Config{Colos: []string{"ams"}, Engine: quick(1), Stall: 500 * time.Millisecond}, "", nil)
	f.watchBeside(8)
	f.fault(simengine.FaultBigAnswer, 1)
	w := f.begin(chatBody(1, false))
	testkit.WaitFor(t, "the stream to begin", func() bool { return f.pool("ams", "demo").Held == 1 })
	testkit.Within(t, 2*time.Second, "its permit is free", func() bool { return f.pool("ams", "demo").Held == 0 && inHand(f.engine("ams")) == 0 })
	w.Close()
}
