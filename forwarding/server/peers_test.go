package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
)

func loadTrustStore(t *testing.T, f tlstest.Files, who peertls.Identity, lines forwardtest.LogLines) *peertls.TrustStore {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if lines != nil {
		logger = slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	p, err := peertls.LoadTrustStore(peertls.Files(f), who, logger)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// coloServer is a colo server that serves each node that mutual TLS accepts, for hops of the entry.
type coloServer struct {
	*forwardtest.Drainable
	lines  forwardtest.LogLines
	served atomic.Int64
	body   []byte // of requests; nil = a short one
}

func newColoServer(t *testing.T, f tlstest.Files) *coloServer {
	t.Helper()
	s := &coloServer{lines: make(forwardtest.LogLines, 100)}
	peers := loadTrustStore(t, f, forwardtest.Colo(), s.lines)
	s.Drainable = forwardtest.ServeConfig(t, server.Config{Peers: peers, Handle: func(rc *fasthttp.RequestCtx) {
		if err := server.VerifyTokenSource(peers, rc.Conn(), &hop.Token{Source: "entry-1"}); err != nil {
			rc.SetStatusCode(fasthttp.StatusForbidden)
			rc.SetConnectionClose()
			return
		}
		s.served.Add(1)
	}})
	return s
}

// ask sends a request to the colo server, as the node who, with the trust store of the client.
func (s *coloServer) ask(tr *transport.Transport, peers *peertls.TrustStore, who peertls.Identity) (status int, err error) {
	r := forwardtest.NewRequest(s.Address)
	r.Target = transport.PeerTarget(peers, s.Address, who)
	r.Deadline = time.Now().Add(forwardtest.Patience)
	if s.body != nil {
		r.Body = s.body
	}
	answer, err := tr.Do(s.T.Context(), r, transport.ReadOptions{})
	if err != nil {
		return 0, err
	}
	defer answer.Close()
	return answer.Status(), nil
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t, "fleet")
	s := newColoServer(t, forwardtest.NewFiles(t, ca, forwardtest.Colo(), nil))
	entry := loadTrustStore(t, forwardtest.NewFiles(t, ca, forwardtest.Entry(), nil), forwardtest.Entry(), nil)
	transport := forwardtest.NewTransport(t)
	for range 3 {
		if status, err := s.ask(transport, entry, forwardtest.Colo()); status != 200 || err != nil {
			t.Errorf("status %d, %v", status, err)
		}
	}
	if n := transport.Idle(); n != 1 {
		t.Errorf("%d connections are kept, want 1", n)
	}
	s.Stop(server.DrainTimings{})
}

// A node without a valid certificate is refused before a request or a response. The errors on both sides have what was expected, what
// was received and what to do.
func TestMutualTLSRefuses(t *testing.T) {
	t.Parallel()
	ours, others := tlstest.NewCA(t, "fleet"), tlstest.NewCA(t, "another fleet")
	f := func(name string, entry, colo tlstest.Files, entryError, coloError string) {
		t.Helper()
		s := newColoServer(t, colo)
		s.body = make([]byte, 4<<20) // still being sent when it is refused
		status, err := s.ask(forwardtest.NewTransport(t), loadTrustStore(t, entry, forwardtest.Entry(), nil), forwardtest.Colo())
		var failed *transport.ExchangeError
		if !errors.As(err, &failed) || failed.Phase != transport.PhaseConnect || !strings.Contains(err.Error(), entryError) {
			t.Errorf("%s: the entry got %d, %v, want a failure to connect with %q", name, status, err, entryError)
		}
		for line := ""; !strings.Contains(line, coloError); {
			line = forwardtest.Receive(t, name+": "+coloError+" in the colo server's log", s.lines)
		}
		if s.served.Load() != 0 {
			t.Errorf("%s: it was served", name)
		}
		s.Stop(server.DrainTimings{})
	}
	good := func(who peertls.Identity) tlstest.Files { return forwardtest.NewFiles(t, ours, who, nil) }
	only := func(usage x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{usage} }
	}
	const refusedUs = "it rejected our certificate"

	otherCA := forwardtest.NewFiles(t, others, forwardtest.Entry(), nil)
	otherCA.Trust(ours)
	f("the entry is of another authority", otherCA, good(forwardtest.Colo()), refusedUs, "another fleet")
	otherCA = forwardtest.NewFiles(t, others, forwardtest.Colo(), nil)
	otherCA.Trust(ours)
	f("the colo server is of another authority", good(forwardtest.Entry()), otherCA, "another fleet", refusedUs)
	f("the entry's certificate has expired", forwardtest.NewFiles(t, ours, forwardtest.Entry(), tlstest.Expired), good(forwardtest.Colo()), refusedUs, "expired")
	f("the colo server's certificate has expired", good(forwardtest.Entry()), forwardtest.NewFiles(t, ours, forwardtest.Colo(), tlstest.Expired), "expired", refusedUs)
	f("the entry's certificate is for servers only", forwardtest.NewFiles(t, ours, forwardtest.Entry(), only(x509.ExtKeyUsageServerAuth)), good(forwardtest.Colo()), refusedUs, "incompatible key usage")
	f("the colo server's certificate is for clients only", good(forwardtest.Entry()), forwardtest.NewFiles(t, ours, forwardtest.Colo(), only(x509.ExtKeyUsageClientAuth)), "incompatible key usage", refusedUs)
}

// A node of the fleet other than the expected one is refused.
func TestMutualTLSRefusesAnotherNode(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t, "fleet")
	s := newColoServer(t, forwardtest.NewFiles(t, ca, forwardtest.Colo(), nil))
	entry := loadTrustStore(t, forwardtest.NewFiles(t, ca, forwardtest.Entry(), nil), forwardtest.Entry(), nil)
	for _, who := range []peertls.Identity{
		{Role: peertls.RoleColo, Colo: "ams", Node: "ams-2"}, {Role: peertls.RoleColo, Colo: "fra", Node: "ams-1"}, {Role: peertls.RoleEntry, Node: "ams-1"},
	} {
		_, err := s.ask(forwardtest.NewTransport(t), entry, who)
		var failed *transport.ExchangeError
		if !errors.As(err, &failed) || failed.Phase != transport.PhaseConnect ||
			!strings.Contains(err.Error(), "expected a certificate for "+who.String()+", got one for "+forwardtest.Colo().String()) {
			t.Errorf("looking for %s: %v", who, err)
		}
	}
	for _, who := range []peertls.Identity{
		{Role: peertls.RoleEntry, Node: "entry-2"}, {Role: peertls.RoleColo, Colo: "ams", Node: "entry-1"}, {Role: peertls.RoleColo, Colo: "fra", Node: "fra-1"},
	} {
		another := loadTrustStore(t, forwardtest.NewFiles(t, ca, who, nil), who, nil)
		if status, err := s.ask(forwardtest.NewTransport(t), another, forwardtest.Colo()); status != fasthttp.StatusForbidden || err != nil {
			t.Errorf("asking as %s: status %d, %v", who, status, err)
		}
	}
	if s.served.Load() != 0 {
		t.Error("another node was served")
	}
	s.Stop(server.DrainTimings{})
}

// A client without the certificate of a node is refused before its request.
func TestMutualTLSNeedsCertificates(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t, "fleet")
	s := newColoServer(t, forwardtest.NewFiles(t, ca, forwardtest.Colo(), nil))
	f := func(name string, config *tls.Config, says string) {
		t.Helper()
		c := &withTLS{Drainable: s.Drainable, ca: ca}
		if _, err := c.call(func(given *tls.Config) { given.Certificates = config.Certificates }).ask(); err == nil {
			t.Errorf("%s: it was answered", name)
		}
		if line := forwardtest.Receive(t, "the log", s.lines); !strings.Contains(line, says) {
			t.Errorf("%s: logged %q, want %q", name, line, says)
		}
	}
	f("no certificate", &tls.Config{}, "it has no certificate: if it is a node of this fleet, start it with -peer-tls-cert")
	f("no node's", &tls.Config{Certificates: []tls.Certificate{ca.Pair("", nil)}}, "that names no node")
	f("no role's", &tls.Config{Certificates: []tls.Certificate{ca.Pair("colonnade:admin/x", nil)}}, "colonnade:admin/x")

	_, err := forwardtest.NewTransport(t).Do(t.Context(), forwardtest.NewRequest(s.Address), transport.ReadOptions{})
	if err != nil && !strings.Contains(err.Error(), "closed without a response") {
		t.Errorf("plain HTTP: %v", err)
	}
	if line := forwardtest.Receive(t, "the log", s.lines); !strings.Contains(line, "it uses plain HTTP: if it is a node of this fleet, start it with -peer-tls-cert") {
		t.Errorf("plain HTTP: logged %q", line)
	}
	if s.served.Load() != 0 {
		t.Error("a client was served")
	}
	s.Stop(server.DrainTimings{})

	plain := forwardtest.Serve(t, nil)
	entry := loadTrustStore(t, forwardtest.NewFiles(t, ca, forwardtest.Entry(), nil), forwardtest.Entry(), nil)
	r := forwardtest.NewRequest(plain.Address)
	r.Target = transport.PeerTarget(entry, plain.Address, forwardtest.Colo())
	var failed *transport.ExchangeError
	if _, err := forwardtest.NewTransport(t).Do(t.Context(), r, transport.ReadOptions{}); !errors.As(err, &failed) || failed.Phase != transport.PhaseConnect ||
		!strings.Contains(err.Error(), "it does not use TLS: start it with -peer-tls-cert") {
		t.Errorf("a colo server without TLS: %v", err)
	}
	plain.Stop(server.DrainTimings{})
}

// An idle connection is used only for the node that it was made to, and not for another one at the same address.
func TestIdleConnectionsBelongToANode(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t, "fleet")
	s := newColoServer(t, forwardtest.NewFiles(t, ca, forwardtest.Colo(), nil))
	entry := loadTrustStore(t, forwardtest.NewFiles(t, ca, forwardtest.Entry(), nil), forwardtest.Entry(), nil)
	transport := forwardtest.NewTransport(t)
	if status, err := s.ask(transport, entry, forwardtest.Colo()); status != 200 || err != nil {
		t.Fatalf("status %d, %v", status, err)
	}
	if _, err := s.ask(transport, entry, peertls.Identity{Role: peertls.RoleColo, Colo: "ams", Node: "ams-2"}); err == nil {
		t.Error("the connection of ams-1 was used to speak to ams-2")
	}
	if _, err := s.ask(transport, nil, forwardtest.Colo()); err == nil {
		if n := s.served.Load(); n != 1 {
			t.Errorf("a connection with TLS was used for a target without: %d served", n)
		}
	}
	s.Stop(server.DrainTimings{})
}

// Certificates and authorities can be rotated while nodes run. Each step has effect within a second, on idle connections too, and a
// node that is not trusted any more is refused on its open connection.
func TestRotateCertificates(t *testing.T) {
	t.Parallel()
	before, after := tlstest.NewCA(t, "before"), tlstest.NewCA(t, "after")
	entryFiles, coloFiles := forwardtest.NewFiles(t, before, forwardtest.Entry(), nil), forwardtest.NewFiles(t, before, forwardtest.Colo(), nil)
	s := newColoServer(t, coloFiles)
	entry := loadTrustStore(t, entryFiles, forwardtest.Entry(), nil)
	laggard := loadTrustStore(t, forwardtest.NewFiles(t, before, forwardtest.Entry(), nil), forwardtest.Entry(), nil) // never updated
	transport, lagging := forwardtest.NewTransport(t), forwardtest.NewTransport(t)
	f := func(step string) {
		t.Helper()
		for until := time.Now().Add(1200 * time.Millisecond); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			if status, err := s.ask(transport, entry, forwardtest.Colo()); status != 200 || err != nil {
				t.Fatalf("%s: status %d, %v", step, status, err)
			}
			if status, err := s.ask(lagging, laggard, forwardtest.Colo()); step == "" && (status != 200 || err != nil) {
				t.Fatalf("the laggard: status %d, %v", status, err)
			}
		}
	}
	f("")
	entryFiles.Trust(before, after)
	coloFiles.Trust(before, after)
	f("both authorities are trusted")
	entryFiles.Put(after, forwardtest.Entry().String(), nil)
	coloFiles.Put(after, forwardtest.Colo().String(), nil)
	f("new certificates")
	if entry.Version() != 2<<32+2 {
		t.Error("the files were not read again")
	}
	entryFiles.Trust(after)
	coloFiles.Trust(after)
	f("the old authority is not trusted any more")
	if status, err := s.ask(lagging, laggard, forwardtest.Colo()); status == 200 {
		t.Errorf("a node of the old authority: status %d, %v", status, err)
	}
	s.Stop(server.DrainTimings{})
}

// The client's certificate of an open connection is verified again when the authorities have changed.
func TestOpenConnectionsAreVerifiedAgain(t *testing.T) {
	t.Parallel()
	before, after := tlstest.NewCA(t, "before"), tlstest.NewCA(t, "after")
	coloFiles := forwardtest.NewFiles(t, before, forwardtest.Colo(), nil)
	s := newColoServer(t, coloFiles)
	c := (&withTLS{Drainable: s.Drainable, ca: before}).call(func(config *tls.Config) {
		config.Certificates = []tls.Certificate{before.Pair(forwardtest.Entry().String(), nil)}
	})
	if last, err := c.ask(); last || err != nil {
		t.Fatalf("last %v, %v", last, err)
	}
	coloFiles.Trust(after)
	testkit.WaitFor(t, "it to be served no more", func() bool {
		s.served.Store(0)
		_, _ = c.ask()
		return s.served.Load() == 0
	})
	s.Stop(server.DrainTimings{})
}
