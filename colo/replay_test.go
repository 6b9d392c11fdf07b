package colo

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/forwarding/hop"
	"colonnade/reasons"
)

// recorded returns the bytes of a chat request as an entry sends it.
func (s *testServer) recorded(token hop.Token, body string) []byte {
	s.t.Helper()
	r, err := s.signed(s.t.Context(), token, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Close = false
	var wire bytes.Buffer
	if err := r.Write(&wire); err != nil {
		s.t.Fatal(err)
	}
	return wire.Bytes()
}

// connection is a connection to a server, by which a test sends bytes that were recorded.
type connection struct {
	net.Conn
	br *bufio.Reader
}

func (s *testServer) connect() *connection {
	s.t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &connection{c, bufio.NewReader(c)}
}

// send sends bytes and reads an answer.
func (c *connection) send(t *testing.T, wire []byte) *http.Response {
	t.Helper()
	if _, err := c.Write(wire); err != nil {
		t.Error(err)
		return &http.Response{}
	}
	answer, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Error(err)
		return &http.Response{}
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer
}

// expectRefused expects a refusal of a token, of a kind of its metric, with nothing but what the kind allows in the answer.
func (s *testServer) expectRefused(name, kind string, wire []byte, on *connection) {
	s.t.Helper()
	before := s.tokensRefused(kind)
	answer := on.send(s.t, wire)
	reason, boot := "", ""
	switch kind {
	case "replayed":
		reason = reasons.HopTokenReplayed
	case "sign_again":
		boot = s.Boot()
	}
	if answer.StatusCode != 403 || answer.Header.Get(hop.HeaderReason) != reason || answer.Header.Get(hop.HeaderBoot) != boot || !answer.Close {
		s.t.Errorf("%s: answered %d %v", name, answer.StatusCode, answer.Header)
	}
	if counted := s.tokensRefused(kind) - before; counted != 1 {
		s.t.Errorf("%s: counted %d times as %s", name, counted, kind)
	}
}

// tokensRefused returns the count of one kind in the metric.
func (s *testServer) tokensRefused(kind string) int {
	s.t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(s.config.Metrics.(*metrics.Registry), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	_, rest, found := strings.Cut(w.Body.String(), `colonnade_hop_tokens_refused_total{kind="`+kind+`"} `)
	if !found {
		s.t.Errorf("no metric of %s", kind)
	}
	n := 0
	for _, digit := range strings.SplitN(rest, "\n", 2)[0] {
		n = 10*n + int(digit-'0')
	}
	return n
}

// countingEngine makes an engine that counts requests and records the tenants in them the only one.
func (s *testServer) countingEngine() (served *atomic.Int64, tenants *sync.Map) {
	served, tenants = new(atomic.Int64), new(sync.Map)
	s.engine(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		tenants.Store(r.Header.Get("X-Tenant"), true)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"x"}`))
	})
	return served, tenants
}

const plainChat = `{"model":"x","messages":[]}`

// A recorded request is refused on every connection once it was served, with nothing done, and so is one with a token for another
// content type, query, path or body.
func TestRecordedRequest(t *testing.T) {
	for _, protocol := range []int{1, hop.NodeNamesProtocol, hop.BinaryTokenProtocol} {
		t.Run(fmt.Sprint("protocol ", protocol), func(t *testing.T) { testRecordedRequest(t, protocol) })
	}
}

func testRecordedRequest(t *testing.T, protocol int) {
	t.Helper()
	s := startServer(t)
	s.protocol = protocol
	served, _ := s.countingEngine()
	recorded := s.recorded(hopFor("late"), plainChat)
	kept := s.connect()
	if answer := kept.send(t, recorded); answer.StatusCode != 200 {
		t.Fatalf("the first time: %d %v", answer.StatusCode, answer.Header)
	}
	s.expectRefused("on the same connection", "replayed", recorded, kept)
	s.expectRefused("on another connection", "replayed", recorded, s.connect())
	s.expectRefused("to another query", "invalid", bytes.Replace(recorded, []byte("completions HTTP"), []byte("completions?a=b HTTP"), 1), s.connect())
	s.expectRefused("of another type", "invalid", bytes.Replace(recorded, []byte("application/json"), []byte("application/jsox"), 1), s.connect())
	s.expectRefused("with another header", "invalid", bytes.Replace(recorded, []byte("Content-Type"), []byte("Accept: a/b\r\nContent-Type"), 1), s.connect())
	s.expectRefused("to another path", "invalid", bytes.Replace(recorded, []byte("/chat/completions"), []byte("/completions"), 1), s.connect())
	if n := served.Load(); n != 1 {
		t.Errorf("the engine got %d requests", n)
	}

	fresh := s.recorded(hopFor("late"), plainChat)
	s.expectRefused("with another body", "invalid", bytes.Replace(fresh, []byte(`"x"`), []byte(`"y"`), 1), s.connect())
	s.expectRefused("after one with another body", "replayed", fresh, s.connect())
	if n := served.Load(); n != 1 {
		t.Errorf("the engine got %d requests", n)
	}
}

// Of many copies of a request that arrive at once, one is served. A body is not read for any other.
func TestCopiesAtOnce(t *testing.T) {
	s := startServer(t)
	served, _ := s.countingEngine()
	recorded := s.recorded(hopFor("late"), `{"model":"x","messages":[],"user":"`+strings.Repeat("x", 64<<10)+`"}`)
	var answers [2]atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		c := s.connect()
		all.Go(func() {
			switch status := c.send(t, recorded).StatusCode; status {
			case 200:
				answers[0].Add(1)
			case 403:
				answers[1].Add(1)
			default:
				t.Errorf("answered %d", status)
			}
		})
	}
	all.Wait()
	if served.Load() != 1 || answers[0].Load() != 1 || answers[1].Load() != 49 {
		t.Errorf("the engine got %d requests; %d were answered by it, %d refused", served.Load(), answers[0].Load(), answers[1].Load())
	}
	s.expectEvents(1)
}

// A request that was recorded before a restart of its server is refused after it, and the answer names the new process.
func TestRecordedBeforeARestart(t *testing.T) {
	before, after := startServer(t), startServer(t)
	after.config.Keys, after.keys = before.keys, before.keys
	served, _ := after.countingEngine()
	recorded := before.recorded(hopFor("late"), plainChat)
	after.expectRefused("recorded before the restart", "sign_again", recorded, after.connect())
	after.expectRefused("again", "sign_again", recorded, after.connect())
	if served.Load() != 0 {
		t.Errorf("the engine got %d requests", served.Load())
	}
	if answer := after.connect().send(t, after.recorded(hopFor("late"), plainChat)); answer.StatusCode != 200 {
		t.Errorf("signed again: %d %v", answer.StatusCode, answer.Header)
	}
}

// A token of an entry that has not been updated yet is accepted, though it can be used again.
func TestTokenOfAnOldEntry(t *testing.T) {
	s := startServer(t)
	served, _ := s.countingEngine()
	const path = "/v1/chat/completions"
	token := s.signOld("POST", path, `{"rid":"r","src":"entry-1","acc":"a","w":1,"pri":"standard","mod":"late","hops":1,"att":0,"ret":0,"wait":"full","total":60000`, plainChat)
	wire := "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nx-colonnade-hop: " + token +
		"\r\nContent-Length: " + strconv.Itoa(len(plainChat)) + "\r\n\r\n" + plainChat
	for range 2 {
		if answer := s.connect().send(t, []byte(wire)); answer.StatusCode != 200 {
			t.Errorf("answered %d %v", answer.StatusCode, answer.Header)
		}
	}
	if n := served.Load(); n != 2 {
		t.Errorf("the engine got %d requests", n)
	}
	s.expectEvents(2)
}

// signOld returns a token of the version before, with a payload that lacks its time and its end, and makes its key the server's.
func (s *testServer) signOld(method, path, payload, body string) string {
	s.t.Helper()
	key := bytes.Repeat([]byte{7}, hop.KeySize)
	var err error
	if s.config.Keys, err = hop.NewKeys(key); err != nil {
		s.t.Fatal(err)
	}
	payload += fmt.Sprintf(`,"iat":%d}`, time.Now().Unix())
	digest := sha256.Sum256([]byte(body))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "v1.%d %d %d %s%s%s%s%s", len(s.config.Node), len(method), len(path), s.config.Node, method, path, digest[:], payload)
	enc := base64.RawURLEncoding
	return "v1." + enc.EncodeToString([]byte(payload)) + "." + enc.EncodeToString(mac.Sum(digest[:]))
}

// A header line that was added to a request reaches no engine, though the model's document forwards it.
func TestHeaderThatIsNotSigned(t *testing.T) {
	for _, protocol := range []int{1, hop.BinaryTokenProtocol} {
		t.Run(fmt.Sprint("protocol ", protocol), func(t *testing.T) { testHeaderThatIsNotSigned(t, protocol) })
	}
}

func testHeaderThatIsNotSigned(t *testing.T, protocol int) {
	t.Helper()
	s := startServer(t)
	s.protocol = protocol
	served, tenants := s.countingEngine()
	s.apply(strings.Replace(lateModel, "pool: p", "pool: p\nforward_headers: [x-tenant]", 1))
	recorded := s.recorded(hopFor("late"), plainChat)
	forged := bytes.Replace(recorded, []byte("Content-Type"), []byte("X-Tenant: forged\r\nContent-Type"), 1)
	if answer := s.connect().send(t, forged); answer.StatusCode != 200 {
		t.Errorf("answered %d %v", answer.StatusCode, answer.Header)
	}
	if _, reached := tenants.Load("forged"); reached || served.Load() != 1 {
		t.Errorf("the engine got %d requests, and the header: %v", served.Load(), reached)
	}
}

// A recorded handshake opens no second session.
func TestRecordedHandshake(t *testing.T) {
	s := startServer(t)
	token, err := s.keys.Sign(new(hopFor("voice")), hop.NewSequence(s.Boot()), &toSelf, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := s.dialWith(token)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, answer, err := s.dialWith(token); err == nil || answer == nil || answer.StatusCode != 403 || answer.Header.Get(hop.HeaderReason) != reasons.HopTokenReplayed {
			t.Errorf("again: %v, %v", answer, err)
		}
	}
	c.Close()
	s.until("the session to be over", func() bool { return s.held() == 0 && s.inflight.Count() == 0 })
	s.expectEvents(1)
}

// Two inferences for one request, which an entry sends again after a lost connection, have two event ids.
func TestEventOfEachInference(t *testing.T) {
	s := startServer(t)
	s.countingEngine()
	for range 3 {
		if status, verdict := s.chat("late"); status != 200 {
			t.Fatalf("answered %d %s", status, verdict)
		}
	}
	s.expectEvents(3)
}

// expectEvents expects the events of n inferences: each has a begin and an end with an id of its own.
func (s *testServer) expectEvents(n int) {
	s.t.Helper()
	phases := map[string][]analytics.Phase{}
	for e, err := range journal.ReadDir(s.events) {
		if err != nil {
			s.t.Fatal(err)
		}
		phases[e.EventID] = append(phases[e.EventID], e.Phase)
	}
	if len(phases) != n {
		s.t.Errorf("%d event ids, want %d", len(phases), n)
	}
	for id, all := range phases {
		if len(all) != 2 {
			s.t.Errorf("the id %s has the phases %v", id, all)
		}
	}
}
