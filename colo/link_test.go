package colo

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/link"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
	"colonnade/reasons"
)

// linkToken returns the token of a request for a link.
func (s *testServer) linkToken(from string) string {
	s.t.Helper()
	return s.tokenFor(hop.PathLink, from)
}

// tokenFor returns the header line with the token of a question.
func (s *testServer) tokenFor(target, from string) string {
	s.t.Helper()
	token, err := s.keys.Sign(&hop.Token{Source: from}, hop.NewSequence(s.Boot()), &hop.Binding{Audience: "ams-1", Method: "GET", Target: target}, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return hop.HeaderToken + ": " + token + "\r\n"
}

// ask sends a request on a stream of a link.
func (s *testServer) askOver(l *link.Link, wire []byte) *http.Response {
	s.t.Helper()
	stream := forwardtest.OpenStream(s.t, l, string(wire))
	answer, _, err := forwardtest.ReadStream(stream)
	if err != nil {
		s.t.Errorf("over a link: %v", err)
		return &http.Response{}
	}
	return answer
}

// exchangeOver sends a request with a binary head on a stream of a link.
func (s *testServer) exchangeOver(l *link.Link, request []byte) (hop.AnswerHead, []byte) {
	s.t.Helper()
	answer, body, err := forwardtest.ReadBinaryAnswer(forwardtest.OpenStream(s.t, l, string(request)))
	if err != nil {
		s.t.Errorf("with a binary head: %v", err)
	}
	return answer, body
}

// A request with a binary head is refused as one in text is: for another path or header line than it was signed for, for a session, or for a model that
// the colo does not have.
func TestRefusedBinaryHeads(t *testing.T) {
	s := startServer(t)
	l := forwardtest.OpenLink(t, s.connect(), s.linkToken("entry-1"))
	f := func(name string, request []byte, status int, verdict hop.VerdictKind) {
		t.Helper()
		answer, body := s.exchangeOver(l, request)
		got, err := hop.ParseVerdict(answer.Fields.Get(hop.HeaderVerdict))
		if answer.Status != status || got.Kind != verdict || (err != nil) != (verdict == "") || answer.Fields.Get(hop.HeaderTook) == "" || !json.Valid(body) {
			t.Errorf("%s: %d, %+v, %v, %s", name, answer.Status, got, err, body)
		}
	}
	replaced := func(old, by string) []byte {
		wire := s.recorded(hopFor("late"), plainChat)
		return forwardtest.WithBinaryHead(t, bytes.ReplaceAll(wire, []byte(old), []byte(by)))
	}
	f("another path", replaced("/v1/chat/completions", "/v1/completions"), 403, "")
	f("another header line", replaced("application/json", "application/jsox"), 403, "")
	f("another body", replaced("messages", "massages"), 403, "")
	f("no such path", replaced("/v1/chat/completions", "/v1/none"), 404, "")
	f("no such model", forwardtest.WithBinaryHead(t, s.recorded(hopFor("nothing"), `{"model":"nothing","messages":[]}`)), 404, hop.VerdictError)
	session := "GET " + realtimeTarget + " HTTP/1.1\r\nHost: x\r\n" + s.tokenFor(realtimeTarget, "entry-1") + "\r\n"
	f("a session", forwardtest.WithBinaryHead(t, []byte(session)), 400, hop.VerdictError)
}

// A link carries requests to the server, each of which needs a token of its own. A drain waits for the requests, and not for the link.
func TestRequestsOverALink(t *testing.T) {
	s := startServer(t)
	served, _ := s.countingEngine()
	l := forwardtest.OpenLink(t, s.connect(), s.linkToken("entry-1"))
	s.until("the link", func() bool { return s.http.LinkStats() == server.LinkStats{Links: 1} })
	if s.inflight.Count() != 0 {
		t.Error("a link is a request in flight")
	}
	for range 3 {
		recorded := s.recorded(hopFor("late"), plainChat)
		if answer := s.askOver(l, recorded); answer.StatusCode != 200 {
			t.Errorf("answered %d %v", answer.StatusCode, answer.Header)
		}
		if answer := s.askOver(l, recorded); answer.StatusCode != 403 {
			t.Errorf("again: answered %d %v", answer.StatusCode, answer.Header)
		}
	}
	for range 3 {
		recorded := forwardtest.WithBinaryHead(t, s.recorded(hopFor("late"), plainChat))
		if answer, body := s.exchangeOver(l, recorded); answer.Status != 200 || answer.Fields.Get(hop.HeaderAttempts) != "1" || !json.Valid(body) {
			t.Errorf("with a binary head: answered %d %v %s", answer.Status, answer.Fields, body)
		}
		if answer, _ := s.exchangeOver(l, recorded); answer.Status != 403 || answer.Fields.Get(hop.HeaderReason) != reasons.HopTokenReplayed {
			t.Errorf("with a binary head, again: answered %d %v", answer.Status, answer.Fields)
		}
	}
	if !l.Usable() || served.Load() != 6 {
		t.Errorf("the link is usable: %v; the engine got %d requests", l.Usable(), served.Load())
	}
	s.expectEvents(6)
	s.down = true
	if err := s.Shutdown(t.Context(), server.DrainTimings{}); err != nil {
		t.Error(err)
	}
	forwardtest.Receive(t, "the end of the link", l.Done())
}

// A link needs the token of a node for just that.
func TestRefusedLinks(t *testing.T) {
	s := startServer(t)
	good := s.linkToken("entry-1")
	opened := s.connect().send(t, []byte(forwardtest.LinkRequest(good)))
	if opened.StatusCode != 101 || opened.Header.Get(hop.HeaderHeads) != hop.BinaryHeads {
		t.Errorf("a link: %d %v, want one that takes binary heads", opened.StatusCode, opened.Header)
	}
	s.expectRefused("again", "replayed", []byte(forwardtest.LinkRequest(good)), s.connect())
	s.expectRefused("without a token", "invalid", []byte(forwardtest.LinkRequest("")), s.connect())
	s.expectRefused("for a sign of life", "invalid", []byte(forwardtest.LinkRequest(s.tokenFor(hop.PathAlive, "entry-1"))), s.connect())
	without := "GET " + hop.PathLink + " HTTP/1.1\r\nHost: x\r\n" + s.linkToken("entry-1") + "\r\n"
	if answer := s.connect().send(t, []byte(without)); answer.StatusCode != 400 {
		t.Errorf("without Upgrade: %d", answer.StatusCode)
	}
}

// With mutual TLS, the requests of a link are of the node that has opened it, and a link whose certificate is not valid any more takes no further ones.
func TestCertificateOfALink(t *testing.T) {
	before, after := tlstest.NewCA(t, "before"), tlstest.NewCA(t, "after")
	files := forwardtest.NewFiles(t, before, forwardtest.Colo(), nil)
	peers, err := peertls.LoadTrustStore(peertls.Files(files), forwardtest.Colo(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	q := startQuestioned(t, peers)
	dial := func() net.Conn {
		t.Helper()
		//nolint:gosec // the certificate names a node and no host
		c, err := tls.Dial("tcp", q.address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{before.Pair(forwardtest.Entry().String(), nil)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	refused := dial()
	_, _ = refused.Write([]byte(forwardtest.LinkRequest(q.linkToken("entry-2"))))
	q.until("the link of another node to be refused", func() bool { return q.tokensRefused("invalid") == 1 })

	l := forwardtest.OpenLink(t, dial(), q.linkToken("entry-1"))
	other := hopFor("late")
	other.Source = "entry-2"
	if answer := q.askOver(l, q.recorded(other, plainChat)); answer.StatusCode != 403 {
		t.Errorf("a request of another entry: %d", answer.StatusCode)
	}
	if answer := q.askOver(l, q.recorded(hopFor("late"), plainChat)); answer.StatusCode == 403 || !l.Usable() {
		t.Errorf("its own request: %d", answer.StatusCode)
	}
	files.Trust(after)
	for l.Usable() {
		stream, err := l.Open(q.recorded(hopFor("late"), plainChat), true)
		if err != nil {
			break
		}
		_, _, _ = forwardtest.ReadStream(stream)
		stream.Close()
	}
	forwardtest.Receive(t, "the end of the link", l.Done())
}
