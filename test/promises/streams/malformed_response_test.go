package streams_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// evil marks bytes of an engine that no client may see.
const evil = "evil-bytes"

const (
	evilJSON = `{"said":"evil-bytes"}` // 21 bytes
	typeJSON = "Content-Type: application/json"
	inGzip   = "Content-Encoding: gzip"
	okHead   = "HTTP/1.1 200 OK\r\n" + typeJSON + "\r\n"
)

// head is a response with an invalid head.
func head(lines string) rawResponse { return writing(lines + "\r\n" + evilJSON) }

var (
	totalOut      = ending{status: 504, number: 50401, reason: "total_timeout"}
	firstOut      = ending{status: 504, number: 50401, reason: "first_byte_timeout"}
	streamOut     = ending{status: 200, number: 50401, reason: "total_timeout", cut: true}
	misconfigured = ending{status: 502, number: 50001, reason: "endpoint_misconfigured"}
	brokenOff     = ending{status: 502, number: 50001} // for one of several reasons
	brokenTail    = ending{status: 200, number: 50001, cut: true}
)

// rawCases is what an engine does that no HTTP library does, and how plain and streamed chats end for it: one case of each
// class. All malformed heads, interim responses and bodies are tested in forwarding/transport.
var rawCases = []struct {
	name            string
	response        rawResponse
	plain, streamed ending
}{
	{"both framings", head(okHead + "Content-Length: 21\r\nTransfer-Encoding: chunked\r\n"), noAnswer, noAnswer},
	{"a dripping head", writing(okHead).then(repeating("x", 50*time.Millisecond)), totalOut, firstOut},
	{"a redirection", framed("302 Found", evilJSON, "Location: http://127.0.0.1:1/"), badStatus, badStatus},

	{"fewer bytes than announced", either(okHead+"Content-Length: 99\r\n\r\n"+evilJSON, rawStream+rawChunk(rawEvent("a"))+"40\r\ndata: {").then(closes), cutPlain, cutStream},
	{"a malformed second chunk", either(okHead+"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n", rawStream+rawChunk(rawEvent("a"))).then(repeating("0000", 0)), cutPlain, cutStream},
	{"chunks without an end", rawResponse{write: func(c *rawConn, stream bool) {
		text, piece := okHead+"Transfer-Encoding: chunked\r\n\r\n", rawChunk("[")
		if stream {
			text, piece = rawStream, rawChunk(rawEvent("a"))
		}
		c.say(text)
		repeating(piece, 50*time.Millisecond)(c)
	}}, totalOut, streamOut},
	{"bytes without an end behind the response, or in a comment", either(goodResponse(true, false), strings.Replace(rawStream, "Transfer-Encoding: chunked", "Content-Length: 99999999999", 1)+": ").
		then(repeating(strings.Repeat("x", 64<<10), 0)), served, cutShort},

	{"HTML with 200", framed("200 OK", "<html>evil-bytes</html>", "Content-Type: text/html"), misconfigured, misconfigured},
	{"gzip", framed("200 OK", evilJSON, typeJSON, inGzip), misconfigured, misconfigured},
	{"a refusal in gzip", framed("400 No", evilJSON, typeJSON, inGzip), refused, refused},

	{"reset at once", writing("").then(resets), noAnswer, noAnswer},
	{"reset after half the body", either(okHead+"Content-Length: 99\r\n\r\n"+evilJSON, rawStream+rawChunk(rawEvent("a"))).then(resets), brokenOff, brokenTail},
	{"answered before it was read", rawResponse{early: true, reusable: true, write: func(c *rawConn, stream bool) {
		c.say(goodResponse(true, stream))
		time.Sleep(100 * time.Millisecond)
	}}, served, served},
	{"a second response later", either(goodResponse(true, false), goodResponse(true, true)).then(func(c *rawConn) {
		time.Sleep(20 * time.Millisecond)
		c.say(wiretest.EncodeResponse("200 OK", evilJSON, typeJSON))
	}), served, served},
	{"half-closed behind the response", either(goodResponse(true, false), goodResponse(true, true)).then(halfCloses), served, served},
}

// rawDocuments are two models for each engine: one with timeouts for a slow machine, and one whose timeouts a test can wait
// for.
func rawDocuments(engines []*rawEngine) string {
	var all strings.Builder
	all.WriteString("key: defaults\nmodel: {timeouts: {connect: 20s}}\n")
	for i, e := range engines {
		fmt.Fprintf(&all, "---\nkey: endpoints/ams/raw%d\nurl: %s\npool: raw%d\n---\nkey: models/raw%d\npool: raw%d\n", i, e.url, i, i, i)
		fmt.Fprintf(&all, "---\nkey: models/hasty-raw%d\npool: raw%d\ntimeouts: {connect: 20s, first_byte: 1s, idle: 1s, total: 5s}\n", i, i)
	}
	return all.String()
}

// If an engine sends what is no HTTP, or breaks its connection, the client gets an exact error and none of those bytes, the
// permit is released, the connection is not reused, and each node logs one final event.
func TestMalformedResponses(t *testing.T) {
	t.Parallel()
	engines := make([]*rawEngine, len(rawCases))
	for i, c := range rawCases {
		engines[i] = startRawEngine(t, c.response)
	}
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}}, rawDocuments(engines))
	f.WatchShared(8 + len(engines))
	var all sync.WaitGroup // subtests would keep other parallel tests from running
	for i, c := range rawCases {
		all.Go(func() {
			for _, stream := range []bool{false, true} {
				want := c.plain
				if stream {
					want = c.streamed
				}
				sendRaw(rawTest{t, c.name}, f, fmt.Sprintf("raw%d", i), engines[i], stream, want)
			}
		})
	}
	all.Wait()
	checkRawEvents(f)
}

// rawTest is the part of the test for one case.
type rawTest struct {
	testing.TB
	name string
}

func (t rawTest) Errorf(format string, args ...any) {
	t.TB.Helper()
	t.TB.Errorf("%s: "+format, append([]any{t.name}, args...)...)
}

func (t rawTest) Fatalf(format string, args ...any) {
	t.TB.Helper()
	t.TB.Fatalf("%s: "+format, append([]any{t.name}, args...)...)
}

// sendRaw sends a request for which the engine misbehaves, between two others.
func sendRaw(t testing.TB, f *fleettest.Fleet, pool string, e *rawEngine, stream bool, want ending) {
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[]}`, pool, stream)
	good := func() {
		t.Helper()
		w := wiretest.Dial(t, f.Entry.Address)
		defer w.Close()
		w.Post("/v1/chat/completions", body)
		if a := w.Read(); a.Status != 200 || a.Err != nil || !strings.Contains(a.Body, "good") || strings.Contains(a.Body, evil) {
			t.Errorf("beside it: %d %v %.300q", a.Status, a.Err, a.Body)
		}
	}
	good()
	before := e.asked.Load()
	e.hostile.Store(true)
	w := wiretest.Dial(t, f.Entry.Address)
	defer w.Close()
	if want.number == 50401 {
		w.Post("/v1/chat/completions", strings.Replace(body, pool, "hasty-"+pool, 1), "x-request-id: "+rawID(pool, stream))
	} else {
		w.Post("/v1/chat/completions", body, "x-request-id: "+rawID(pool, stream))
	}
	a := w.Read()
	e.hostile.Store(false)
	want.check(t, w, a)
	if want.status != 200 && strings.Contains(a.Body, evil) {
		t.Errorf("the client got what the engine sent: %.300q", a.Body)
	}
	if want == served && (a.Err != nil || !strings.Contains(a.Body, "good") || strings.Contains(a.Body, evil)) {
		t.Errorf("answer %v %.300q", a.Err, a.Body)
	}
	testkit.Within(t, 500*time.Millisecond, "the permit to be free", func() bool { return f.Pool("ams", pool).Held == 0 })
	if n := e.asked.Load() - before; n != 1 {
		t.Errorf("the engine got %d requests, want 1", n)
	}
	time.Sleep(50 * time.Millisecond) // for bytes that come later
	good()
	if n := e.misused.Load(); n > 0 {
		t.Errorf("%d requests on a connection that must not be reused", n)
	}
}

func rawID(pool string, stream bool) string { return fmt.Sprintf("hostile-%s-%v", pool, stream) }

// checkRawEvents expects one final event of each node.
func checkRawEvents(f *fleettest.Fleet) {
	f.T.Helper()
	ends := map[string]int{}
	for e, err := range journal.ReadDir(f.Entry.DataDir) {
		if err != nil {
			f.T.Fatal(err)
		}
		if e.Phase == analytics.PhaseEnd {
			ends[string(e.Kind)+" "+e.ClientRequestID]++
		}
	}
	for i, c := range rawCases {
		for _, stream := range []bool{false, true} {
			for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
				if n := ends[string(kind)+" "+rawID(fmt.Sprintf("raw%d", i), stream)]; n != 1 {
					f.T.Errorf("%s, stream %v: %d final events of kind %s, want 1", c.name, stream, n, kind)
				}
			}
		}
	}
}
