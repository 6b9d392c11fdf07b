package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"colonnade/forwarding/transport"
	"colonnade/internal/testkit"
	"colonnade/openai"
)

// nameServer answers questions for addresses of a few names. It stands in for the resolver of this process: see TestMain.
type nameServer struct {
	conn net.PacketConn

	mu        sync.Mutex // guards the fields below
	addresses map[string]netip.Addr
}

func newNameServer() (*nameServer, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &nameServer{conn: conn, addresses: map[string]netip.Addr{}}, nil
}

func (n *nameServer) set(name, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses[name+"."] = netip.MustParseAddr(address)
}

// serve answers until the connection is closed.
func (n *nameServer) serve() {
	buffer := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var asked dnsmessage.Message
		if asked.Unpack(buffer[:size]) != nil || len(asked.Questions) != 1 {
			continue
		}
		if reply, err := n.answer(asked); err == nil {
			_, _ = n.conn.WriteTo(reply, from)
		}
	}
}

func (n *nameServer) answer(asked dnsmessage.Message) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	question := asked.Questions[0]
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: asked.ID, Response: true, RecursionAvailable: true}, Questions: asked.Questions}
	address, known := n.addresses[question.Name.String()]
	switch {
	case !known:
		reply.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 3600},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return reply.Pack()
}

// resolver returns a resolver that asks n alone.
func (n *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}

// twoEngines serves the models first and second at one port of two addresses.
func twoEngines(t *testing.T) (addresses [2]string, port int, closeIdle func()) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.2 is an address of this machine on Linux only")
	}
	addresses = [2]string{"127.0.0.1", "127.0.0.2"}
	var servers [2]*httptest.Server
	for i, model := range []string{"first", "second"} {
		ln, err := net.Listen("tcp", fmt.Sprintf("%s:%d", addresses[i], port))
		if err != nil {
			t.Skipf("no port that is free at both addresses: %v", err)
		}
		port = ln.Addr().(*net.TCPAddr).Port
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"`+model+`"}]}`)
		}))
		s.Listener.Close()
		s.Listener = ln
		s.Start()
		t.Cleanup(s.Close)
		servers[i] = s
	}
	return addresses, port, func() {
		for _, s := range servers {
			s.CloseClientConnections()
		}
	}
}

// An engine that is given by name is found again when the name leads elsewhere: by the Finder, and by requests, since each new
// connection of the transport resolves the name in the endpoint's URL.
func TestNamesOfEnginesResolveAgain(t *testing.T) {
	t.Parallel()
	addresses, port, closeIdle := twoEngines(t)
	names.set("moves.test", addresses[0])
	host := fmt.Sprintf("moves.test:%d", port)

	var newest atomic.Pointer[string]
	finder := New(Config{URLs: []string{host}, Colo: "local", Interval: time.Millisecond, Report: func(line string) { newest.Store(&line) }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- finder.Run(ctx) }()
	found := func(model string) func() bool {
		return func() bool {
			line := newest.Load()
			return line != nil && strings.Contains(*line, "  "+model+": ")
		}
	}

	requests := transport.New(slog.New(slog.DiscardHandler))
	go func() { ended <- requests.Run(ctx) }()
	send := func() string {
		t.Helper()
		response, err := requests.Do(ctx, &transport.Request{
			Target: transport.Target{Address: host, Host: host}, Method: "GET", Path: "/v1/models",
			ConnectTimeout: testkit.Timeout, IdleTimeout: testkit.Timeout, Deadline: time.Now().Add(testkit.Timeout),
		}, transport.ReadOptions{API: openai.ListModels})
		if err != nil {
			t.Fatal(err)
		}
		defer response.Close()
		var body []byte
		for {
			piece, err := response.Next()
			if errors.Is(err, io.EOF) {
				return string(body)
			}
			if err != nil {
				t.Fatal(err)
			}
			body = append(body, piece...)
		}
	}

	testkit.WaitFor(t, "the engine at the first address", found("first"))
	contains(t, send(), "first")
	names.set("moves.test", addresses[1])
	testkit.WaitFor(t, "the engine at the second address", found("second"))
	closeIdle()
	contains(t, send(), "second")
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestAskOfANameThatDoesNotResolve(t *testing.T) {
	t.Parallel()
	_, err := Ask(t.Context(), "http://missing.test:8000")
	if err == nil || !strings.Contains(err.Error(), "http://missing.test:8000: cannot resolve missing.test") {
		t.Errorf("got %v", err)
	}
}
