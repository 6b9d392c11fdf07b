package relay_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
	"colonnade/reasons"
)

// The end of the connection ends a response without a length and chunks, also for a client that has sent more; with TLS after
// close_notify. A response that is cut ends with an error.
func TestWriteUntilClose(t *testing.T) {
	body := strings.Repeat("0123456789", 50<<10)
	for name, secure := range map[string]bool{"without TLS": false, "with TLS": true} {
		for response, whole := range map[string]bool{
			"HTTP/1.0 200 OK\r\nContent-Type: text/srt\r\n\r\n" + body:             true,
			"HTTP/1.0 200 OK\r\n\r\n":                                              true,
			"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + body:           false,
			"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + body[:100<<10]: false,
		} {
			t.Run(name, func(t *testing.T) { writeUntilClose(t, secure, response, whole) })
		}
	}
}

func writeUntilClose(t *testing.T, secure bool, response string, whole bool) {
	engine := forwardtest.ListenRaw(t, func(c net.Conn) {
		if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, response)
		}
	})
	exchanges, outcomes := forwardtest.NewTransport(t), make(chan relay.Outcome, 1)
	var s *forwardtest.Drainable
	config, ca := server.Config{}, tlstest.NewCA(t, "public")
	config.Handle = func(rc *fasthttp.RequestCtx) {
		answer, err := exchanges.Do(context.Background(), forwardtest.NewRequest(engine), transport.ReadOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		in := s.Inflight.Begin()
		relay.WriteUntilClose(rc, in, &relay.Relay{
			Context: in.Context, Response: answer, Client: rc.Conn(), EndUnknown: true,
			OnOutcome: func(end relay.Outcome) { outcomes <- end }, OnClose: func() { in.Close() },
		})
	}
	if secure {
		files := tlstest.NewFiles(t)
		files.Put(ca, "", nil)
		certificate, err := peertls.LoadCertificate("the certificate", peertls.CertificateFiles{Cert: files.Cert, Key: files.Key}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		config.TLS = certificate.ServerTLS()
	}
	s = forwardtest.ServeConfig(t, config)
	tcp := forwardtest.MustDial(t, s).TCPConn
	var c net.Conn = tcp
	if secure {
		config := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
		c = netconn.NewTLS(netconn.NewSocket(tcp), func(below net.Conn) *tls.Conn { return tls.Client(below, config) }, nil)
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
	got, err := io.ReadAll(c)
	c.Close()
	end := forwardtest.Receive(t, "the outcome", outcomes)
	s.Stop(server.DrainTimings{})
	head, rest, _ := strings.Cut(string(got), "\r\n\r\n")
	_, sent, _ := strings.Cut(response, "\r\n\r\n")
	if (err == nil) != whole || whole && rest != sent || !strings.HasPrefix(sent, rest) {
		t.Errorf("ended with %v after %d bytes, want %d, whole %v", err, len(rest), len(sent), whole)
	}
	want := relay.Outcome{Kind: relay.OutcomeCompleted, Reason: reasons.CloseDelimited}
	if !whole {
		want = relay.Outcome{Kind: relay.OutcomeEngineError, Reason: reasons.Truncated}
	}
	if end.Kind != want.Kind || end.Reason != want.Reason {
		t.Errorf("outcome %+v, want %+v", end, want)
	}
	if whole && (strings.Contains(head, "Content-Length") || strings.Contains(head, "chunked") || !strings.Contains(head, "Connection: close")) {
		t.Errorf("head %q", head)
	}
}

// A client that leaves while the engine is silent is noticed, also behind bytes that were not asked for.
func TestWriteUntilCloseNoticesTheClientLeave(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	engine := forwardtest.ListenRaw(t, func(c net.Conn) {
		if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n"+strings.Repeat("x", 100<<10))
			<-over
		}
	})
	defer close(over)
	exchanges, outcomes := forwardtest.NewTransport(t), make(chan relay.Outcome, 1)
	var s *forwardtest.Drainable
	s = forwardtest.Serve(t, func(rc *fasthttp.RequestCtx) {
		in := s.Inflight.Begin()
		answer, err := exchanges.Do(in.Context, forwardtest.NewRequest(engine), transport.ReadOptions{})
		if err = errors.Join(err, in.WatchClient(rc.Conn())); err != nil {
			t.Error(err)
			in.Close()
			return
		}
		relay.WriteUntilClose(rc, in, &relay.Relay{
			Context: in.Context, Response: answer, Client: rc.Conn(), EndUnknown: true,
			OnOutcome: func(end relay.Outcome) { outcomes <- end }, OnClose: func() { in.Close() },
		})
	})
	c := forwardtest.MustDial(t, s)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := io.ReadFull(c, make([]byte, 100<<10)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(forwardtest.Patience))
	var err error
	for err == nil { // until the server closes the connection
		_, err = c.Write(make([]byte, 64<<10))
	}
	c.Close()
	if netconn.IsTimeout(err) {
		t.Error("not noticed while its bytes are not read")
	}
	if end := forwardtest.Receive(t, "the outcome", outcomes); end.Kind != relay.OutcomeClientGone {
		t.Errorf("outcome %+v", end)
	}
	s.Stop(server.DrainTimings{})
}
