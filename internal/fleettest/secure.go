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

	"colonnade/forwarding/peertls"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
	"colonnade/onebox"
)

// SecureFleet is a fleet that speaks TLS with its clients, and whose nodes know each other by certificates.
type SecureFleet struct {
	*Fleet
	T         testing.TB
	ClientTLS *tls.Config
	WebCA     *tlstest.CA
	WebFiles  tlstest.Files // of the entry, for clients
	FleetCA   *tlstest.CA
	Nodes     map[string]tlstest.Files // for each other, by the URI of the node
}

// StartSecure runs a fleet with TLS everywhere. change, unless nil, changes the files before the fleet starts.
func StartSecure(t testing.TB, c onebox.Config, documents string, change func(*SecureFleet)) *SecureFleet {
	t.Helper()
	f := &SecureFleet{T: t, WebCA: tlstest.NewCA(t, "web"), WebFiles: tlstest.NewFiles(t),
		FleetCA: tlstest.NewCA(t, "fleet"), Nodes: map[string]tlstest.Files{}}
	f.WebFiles.Put(f.WebCA, "", nil)
	f.ClientTLS = &tls.Config{RootCAs: f.WebCA.Pool(), ServerName: "localhost"}
	if c.Colos == nil {
		c.Colos = []string{"ams", "fra"}
	}
	f.putNodeFiles(c.Colos)
	if change != nil {
		change(f)
	}
	c.TLS = peertls.CertificateFiles{Cert: f.WebFiles.Cert, Key: f.WebFiles.Key}
	c.PeerTLS = func(node peertls.Identity) peertls.Files {
		files := f.Nodes[node.String()]
		return peertls.Files{Cert: files.Cert, Key: files.Key, CA: files.CA}
	}
	f.Fleet = Start(t, c, documents)
	f.Client.Transport.(*http.Transport).TLSClientConfig = f.ClientTLS
	return f
}

func (f *SecureFleet) putNodeFiles(colos []string) {
	uris := []string{"colonnade:entry/entry-1"}
	for _, colo := range colos {
		uris = append(uris, "colonnade:colo/"+colo+"/"+colo+"-1")
	}
	for _, uri := range uris {
		f.Node(uri).Put(f.FleetCA, uri, nil)
		f.Node(uri).Trust(f.FleetCA)
	}
}

// Node returns the files of a node, by its URI.
func (f *SecureFleet) Node(uri string) tlstest.Files {
	files, ok := f.Nodes[uri]
	if !ok {
		files = tlstest.NewFiles(f.T)
		f.Nodes[uri] = files
	}
	return files
}

// SecureConn is a client's TLS connection, on which the test writes and reads the bytes itself.
type SecureConn struct {
	*tls.Conn
	R *bufio.Reader
}

// BeginChatTLS sends a chat completion over a TLS connection of its own. lines are further header lines.
func (f *SecureFleet) BeginChatTLS(body string, lines ...string) *SecureConn {
	f.T.Helper()
	c, err := tls.Dial("tcp", f.Entry.Address, f.ClientTLS)
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		ChatPath, len(body), strings.Join(append(lines, ""), "\r\n"), body)
	return &SecureConn{Conn: c, R: bufio.NewReader(c)}
}

// Leave ends the connection in one of the four ways in which clients with TLS do: by a reset, a close with and without
// close_notify, or close_notify alone, after which asyncio waits for the server's.
func (c *SecureConn) Leave(n int) {
	tcp := c.NetConn().(*net.TCPConn)
	switch n % 4 {
	case 0:
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	case 1:
		_ = c.Close()
	case 2:
		_ = tcp.Close()
	case 3:
		_ = c.CloseWrite()
	}
}
