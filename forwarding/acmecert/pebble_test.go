package acmecert_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"colonnade/forwarding/acmecert"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
)

// Pebble is the authority that Let's Encrypt made for tests: it finds mistakes in our requests that an authority of our own does
// not look for. Both challenges are taken, and a name that has no address is refused with the reason.
func TestPebble(t *testing.T) {
	program, err := exec.LookPath("pebble")
	if err != nil {
		t.Skip("pebble is not in the PATH: .ci/run installs it (github.com/letsencrypt/pebble/v2/cmd/pebble)")
	}
	t.Parallel()
	for name, challenge := range map[string]string{"tls-alpn-01": api, "http-01": chat} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testWithPebble(t, program, challenge)
		})
	}
}

// testWithPebble requests certificates for a name and for one without an address. The name decides which port the authority finds open.
func testWithPebble(t *testing.T, program, name string) {
	var log testkit.SyncBuffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the source logged:\n%s", log.String())
		}
	})
	config := acmecert.Config{
		Domains: []string{name, "nowhere.example.org"}, Email: "ops@example.org", CacheDir: t.TempDir(), HTTPListen: "127.0.0.1:0",
		Directory: "https://" + freeAddress(t) + "/dir", Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	ca := tlstest.NewCA(t, "pebble")
	config.Roots = ca.Pool()
	source, err := acmecert.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	s := forwardtest.ServeConfig(t, server.Config{TLS: source.ServerTLS()})
	defer s.Stop(server.DrainTimings{})
	ports := map[string]int{"tlsPort": portOf(t, s.Address), "httpPort": portOf(t, source.HTTPAddr().String())}
	if name == chat {
		ports["tlsPort"] = portOf(t, freeAddress(t))
	}
	management := startPebble(t, program, ca, config.Directory, ports)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	testkit.WaitFor(t, "the certificate", func() bool { return !source.States()[0].Expires.IsZero() })
	testkit.WaitFor(t, "the other name to be refused", func() bool { return source.States()[1].Problem != "" })
	if got := source.States()[1].Problem; !strings.Contains(got, "could not resolve") || !strings.Contains(got, "check its A and AAAA records") {
		t.Errorf("the problem of a name without an address: %s", got)
	}
	if got := source.States()[0]; got.Problem != "" || strings.Contains(log.String(), "name="+name+" error=") {
		t.Errorf("%s has a certificate, and the problem %q", name, got.Problem)
	}
	c, err := tls.Dial("tcp", s.Address, &tls.Config{ServerName: name, RootCAs: issuers(t, management, ca)})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// startPebble runs pebble until the end of the test, and returns the address of its management interface.
func startPebble(t *testing.T, program string, ca *tlstest.CA, directory string, ports map[string]int) (management string) {
	t.Helper()
	files := tlstest.NewFiles(t)
	files.Put(ca, "", nil)
	management = freeAddress(t)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": strings.TrimSuffix(strings.TrimPrefix(directory, "https://"), "/dir"), "managementListenAddress": management,
		"certificate": files.Cert, "privateKey": files.Key, "httpPort": ports["httpPort"], "tlsPort": ports["tlsPort"],
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pebble.json")
	tlstest.Write(t, path, config)
	cmd := exec.Command(program, "-config", path, "-strict", "-dnsserver", serveDNS(t))
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=5")
	var printed testkit.SyncBuffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("pebble printed:\n%s", printed.String())
		}
	})
	testkit.WaitFor(t, "pebble", func() bool {
		c, err := net.Dial("tcp", management)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return management
}

// issuers returns the authority of the certificates that pebble issues, which it makes at each start.
func issuers(t *testing.T, management string, ca *tlstest.CA) *x509.CertPool {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Get("https://" + management + "/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	pool := x509.NewCertPool()
	if text, err := io.ReadAll(answer.Body); err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate: %q, %v", text, err)
	}
	return pool
}

// serveDNS serves the address of this machine for all names but nowhere.example.org, until the end of the test.
func serveDNS(t *testing.T) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // pebble asks over TCP
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { answerDNS(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		serving.Wait()
	})
	return ln.Addr().String()
}

// answerDNS answers one query of a connection.
func answerDNS(c net.Conn) {
	defer c.Close()
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(c, query); err != nil {
		return
	}
	answer := addressOf(query)
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
}

// addressOf returns the answer to a query, empty for one that cannot be read.
func addressOf(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	switch {
	case q.Name.String() == "nowhere.example.org.":
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// freeAddress returns an address on which a program that must be given its port can listen, unless another one is faster.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	port, notNumber := strconv.Atoi(text)
	if err != nil || notNumber != nil {
		t.Fatal(address)
	}
	return port
}
