package fleettest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
	"colonnade/onebox"
)

// SecureFleet is a fleet that speaks TLS with clients, and of which each node has files of its own.
type SecureFleet struct {
	*Fleet
	Tb     testing.TB
	Public *tls.Config // a client's
	Web    struct {
		Ca    *tlstest.CA
		Files tlstest.Files
	}
	FleetCA *tlstest.CA
	Nodes   map[string]tlstest.Files // by the URI of the node
}

// StartSecureFleet runs a fleet with TLS everywhere. change, if there is one, spoils the files before the fleet starts.
func StartSecureFleet(t testing.TB, c onebox.Config, documents string, change func(*SecureFleet)) *SecureFleet {
	t.Helper()
	web, files := tlstest.NewCA(t, "web"), tlstest.NewFiles(t)
	files.Put(web, "", nil)
	c.TLS = forwarding.CertificateFiles{Cert: files.Cert, Key: files.Key}
	f := &SecureFleet{
		Tb:      t,
		Public:  &tls.Config{RootCAs: web.Pool(), ServerName: "localhost"},
		FleetCA: tlstest.NewCA(t, "fleet"), Nodes: map[string]tlstest.Files{},
	}
	f.Web.Ca, f.Web.Files = web, files
	if c.Colos == nil {
		c.Colos = []string{"ams", "fra"}
	}
	f.Node("colonnade:entry/entry-1").Put(f.FleetCA, "colonnade:entry/entry-1", nil)
	for _, colo := range c.Colos {
		uri := "colonnade:colo/" + colo + "/" + colo + "-1"
		f.Node(uri).Put(f.FleetCA, uri, nil)
	}
	for _, node := range f.Nodes {
		node.Trust(f.FleetCA)
	}
	if change != nil {
		change(f)
	}
	c.PeerTLS = func(node forwarding.Identity) forwarding.PeerFiles {
		files := f.Nodes[node.String()]
		return forwarding.PeerFiles{Cert: files.Cert, Key: files.Key, CA: files.CA}
	}
	if documents != "" {
		documents = "\n---\n" + documents
	}
	// A busy machine may take its time for a handshake.
	f.Fleet = Start(t, c, "key: defaults\nmodel: {timeouts: {connect: 30s}}"+documents)
	f.Client.Transport.(*http.Transport).TLSClientConfig = f.Public
	return f
}

// Node returns the files of a node.
func (f *SecureFleet) Node(uri string) tlstest.Files {
	files, ok := f.Nodes[uri]
	if !ok {
		files = tlstest.NewFiles(f.Tb)
		f.Nodes[uri] = files
	}
	return files
}

// SecureConn is a client's bare connection with TLS.
type SecureConn struct {
	*tls.Conn
	Br *bufio.Reader
}

// BeginChatTLS sends a chat completion over a connection of its own.
func (f *SecureFleet) BeginChatTLS(body string, lines ...string) *SecureConn {
	f.T.Helper()
	c, err := tls.Dial("tcp", f.Entry.Address, f.Public)
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		len(body), strings.Join(append(lines, ""), "\r\n"), body)
	return &SecureConn{Conn: c, Br: bufio.NewReader(c)}
}

// Leave leaves in one of the ways in which clients with TLS do.
func (w *SecureConn) Leave(n int) {
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
