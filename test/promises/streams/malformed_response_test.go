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

// evil marks what no client may see of what an engine sends.
const evil = "evil-bytes"

const (
	evilJSON   = `{"said":"evil-bytes"}` // 21 bytes
	evilAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n" + evilJSON
	okHead     = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
)

// head is an answer with a head that is not to be believed, whatever its body would be.
func head(lines string) rawAnswer { return saying(lines + "\r\n" + evilJSON) }

var (
	totalOut   = ending{status: 504, number: 50401, reason: "total"}
	firstOut   = ending{status: 504, number: 50401, reason: "first_byte"}
	streamOut  = ending{status: 200, number: 50401, reason: "total", cut: true}
	notRight   = ending{status: 502, number: 50001, reason: "endpoint_misconfigured"}
	brokenOff  = ending{status: 502, number: 50001} // for one of several reasons
	brokenTail = ending{status: 200, number: 50001, cut: true}
)

// rawCases is what an engine may do that no HTTP library does, and how it ends for plain and streamed chats.
var rawCases = []struct {
	name            string
	says            rawAnswer
	plain, streamed ending
}{
	// Heads that two parsers could read in two ways, or none.
	{"both framings", head(okHead + "Content-Length: 21\r\nTransfer-Encoding: chunked\r\n"), noAnswer, noAnswer},
	{"framings the other way round", head(okHead + "Transfer-Encoding: chunked\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"two lengths", head(okHead + "Content-Length: 21\r\nContent-Length: 2\r\n"), noAnswer, noAnswer},
	{"the same length twice", head(okHead + "Content-Length: 21\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"a list of lengths", head(okHead + "Content-Length: 21, 21\r\n"), noAnswer, noAnswer},
	{"a signed length", head(okHead + "Content-Length: +21\r\n"), noAnswer, noAnswer},
	{"a hexadecimal length", head(okHead + "Content-Length: 0x15\r\n"), noAnswer, noAnswer},
	{"another encoding", head(okHead + "Transfer-Encoding: gzip, chunked\r\n"), noAnswer, noAnswer},
	{"encoding in HTTP/1.0", saying("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n" + evilJSON + "\r\n0\r\n\r\n"), noAnswer, noAnswer},
	{"LF in a line", head(okHead + "X-A: b\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"LF after the status", head("HTTP/1.1 200 OK\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"nothing but LF", saying("HTTP/1.1 200 OK\nContent-Length: 21\n\n" + evilJSON).then(closes), noAnswer, noAnswer},
	{"CR in a line", head(okHead + "X-A: b\rContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"a folded line", head(okHead + "X-A: b\r\n Content-Length: 5\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"NUL", head(okHead + "X-A: \x00\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"a space before the colon", head(okHead + "Content-Length : 21\r\n"), noAnswer, noAnswer},
	{"a line without a colon", head(okHead + "nonsense\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"HTTP/2", head("HTTP/2.0 200 OK\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"HTTP/1.2", head("HTTP/1.2 200 OK\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"HTTP/0.9", saying(evilJSON).then(closes), noAnswer, noAnswer},
	{"TLS", saying("\x15\x03\x01\x00\x02\x02\x28").then(closes), noAnswer, noAnswer},
	{"status 0", head("HTTP/1.1 000 OK\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"status 999", head("HTTP/1.1 999 OK\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"status of two digits", head("HTTP/1.1 20 OK\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"a line too long", head(okHead + "X-A: " + strings.Repeat("x", 17<<10) + "\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"an endless line", saying(okHead + "X-A: ").then(again(strings.Repeat("x", 4<<10), 0)), noAnswer, noAnswer},
	{"an endless head", saying(okHead).then(again(strings.Repeat("X-A: b\r\n", 100), 0)), noAnswer, noAnswer},
	{"a head that drips", saying(okHead).then(again("x", 50*time.Millisecond)), totalOut, firstOut},
	{"half a head", saying(okHead + "Content-Le").then(closes), noAnswer, noAnswer},

	// Answers before the answer, and those without a body.
	{"a flood of 1xx", rawAnswer{write: func(c *rawConn, _ bool) { again("HTTP/1.1 103 Early Hints\r\n\r\n", 0)(c) }}, noAnswer, noAnswer},
	{"a trickle of 1xx", rawAnswer{write: func(c *rawConn, _ bool) { again("HTTP/1.1 100 Continue\r\n\r\n", 700*time.Millisecond)(c) }}, totalOut, firstOut},
	{"1xx with a body", saying("HTTP/1.1 103 Early Hints\r\nContent-Length: 92\r\n\r\n" + evilAnswer), noAnswer, noAnswer},
	{"a switch of protocols", saying("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + evilJSON), noAnswer, noAnswer},
	{"204 with a body", head("HTTP/1.1 204 No Content\r\nContent-Length: 21\r\n"), noAnswer, noAnswer},
	{"304 with a body", head("HTTP/1.1 304 Not Modified\r\nContent-Length: 21\r\n"), badStatus, badStatus},
	{"a redirection", framed("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 21\r\n\r\n" + evilJSON), badStatus, badStatus},

	// Bodies.
	{"fewer bytes than announced", either(okHead+"Content-Length: 99\r\n\r\n"+evilJSON, rawStream+rawChunk(rawEvent("a"))+"40\r\ndata: {").then(closes), cutPlain, cutStream},
	{"an endless chunk size", saying(okHead + "Transfer-Encoding: chunked\r\n\r\n").then(again("5555", 0)), noAnswer, noAnswer},
	{"an endless second chunk size", either(okHead+"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n", rawStream+rawChunk(rawEvent("a"))).then(again("0000", 0)), cutPlain, cutStream},
	{"an endless trailer", either(okHead+"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", rawStream+rawChunk(rawEvent("a"))+"0\r\n").then(again("A: b\r\n", 0)), cutPlain, cutStream},
	{"two sizes of a chunk", either(okHead+"Transfer-Encoding: chunked\r\n\r\n2 15\r\n"+evilJSON, rawStream+"2 15\r\n"+evilJSON), noAnswer, noAnswer},
	{"chunks without an end", rawAnswer{write: func(c *rawConn, stream bool) {
		text := okHead + "Transfer-Encoding: chunked\r\n\r\n"
		piece := rawChunk("[")
		if stream {
			text, piece = rawStream, rawChunk(rawEvent("a"))
		}
		c.say(text)
		again(piece, 50*time.Millisecond)(c)
	}}, totalOut, streamOut},
	{"bytes without an end behind the answer, or in a comment", either(wellAnswer(true, false), strings.Replace(rawStream, "Transfer-Encoding: chunked", "Content-Length: 99999999999", 1)+": ").
		then(again(strings.Repeat("x", 64<<10), 0)), served, cutShort},

	// What is not what was asked for.
	{"HTML with 200", framed("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 23\r\n\r\n<html>evil-bytes</html>"), notRight, notRight},
	{"HTML with 500", framed("HTTP/1.1 500 Oh\r\nContent-Type: text/html\r\nContent-Length: 23\r\n\r\n<html>evil-bytes</html>"), badStatus, badStatus},
	{"gzip", framed(okHead + "Content-Encoding: gzip\r\nContent-Length: 21\r\n\r\n" + evilJSON), notRight, notRight},
	{"a stream in gzip", framed("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: 21\r\n\r\n" + evilJSON), notRight, notRight},
	{"a refusal in gzip", framed("HTTP/1.1 400 No\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 21\r\n\r\n" + evilJSON),
		refused, refused},

	// Connections that end under a request: one that has served before, and is used again.
	{"closed at once", saying("").then(closes), noAnswer, noAnswer},
	{"half-closed at once", saying("").then(halfCloses), noAnswer, noAnswer},
	{"reset at once", saying("").then(resets), noAnswer, noAnswer},
	{"reset after the head", either(okHead+"Content-Length: 99\r\n\r\n", rawStream).then(resets), noAnswer, noAnswer},
	{"reset after half the body", either(okHead+"Content-Length: 99\r\n\r\n"+evilJSON, rawStream+rawChunk(rawEvent("a"))).then(resets), brokenOff, brokenTail},
	{"answered before it was read", rawAnswer{early: true, fit: true, write: func(c *rawConn, stream bool) {
		c.say(wellAnswer(true, stream))
		time.Sleep(100 * time.Millisecond)
	}}, served, served},

	// Answers that are in order, and connections that are not.
	{"more bytes than announced", either(wellAnswer(true, false)+evil, wellAnswer(true, true)+evil), served, served},
	{"a second answer behind", either(wellAnswer(true, false)+evilAnswer, wellAnswer(true, true)+evilAnswer), served, served},
	{"a second answer later", either(wellAnswer(true, false), wellAnswer(true, true)).then(func(c *rawConn) {
		time.Sleep(20 * time.Millisecond)
		c.say(evilAnswer)
	}), served, served},
	{"half-closed behind the answer", either(wellAnswer(true, false), wellAnswer(true, true)).then(halfCloses), served, served},
	{"close, but also keep-alive", either(strings.Replace(wellAnswer(true, false), "\r\n", "\r\nConnection: close\r\nConnection: keep-alive\r\n", 1),
		strings.Replace(wellAnswer(true, true), "\r\n", "\r\nConnection: close\r\nConnection: keep-alive\r\n", 1)), served, served},
}

// rawDocuments are two models for each engine: one with all the time that a slow machine needs, and one with timeouts that
// a test can wait for.
func rawDocuments(engines []*rawEngine) string {
	var all strings.Builder
	all.WriteString("key: defaults\nmodel: {timeouts: {connect: 20s}}\n")
	for i, e := range engines {
		fmt.Fprintf(&all, "---\nkey: endpoints/ams/raw%d\nurl: %s\npool: raw%d\n---\nkey: models/raw%d\npool: raw%d\n", i, e.url, i, i, i)
		fmt.Fprintf(&all, "---\nkey: models/hasty-raw%d\npool: raw%d\ntimeouts: {connect: 20s, first_byte: 1s, idle: 1s, total: 5s}\n", i, i)
	}
	return all.String()
}

// Whatever bytes an engine sends, and whatever it does to its connections: its client gets an exact error of ours and
// nothing of those bytes, the permit is free, the connection serves nobody else, and each node has logged one end.
func TestEnginesThatSpeakNoHTTP(t *testing.T) {
	t.Parallel()
	engines := make([]*rawEngine, len(rawCases))
	for i, c := range rawCases {
		engines[i] = startRawEngine(t, c.says)
	}
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}}, rawDocuments(engines))
	f.WatchShared(8 + len(engines))
	var all sync.WaitGroup // and not parallel tests: they wait, and would keep others from running
	for i, c := range rawCases {
		all.Go(func() {
			for _, stream := range []bool{false, true} {
				want := c.plain
				if stream {
					want = c.streamed
				}
				endure(f, rawTest{t, c.name}, fmt.Sprintf("raw%d", i), engines[i], stream, want)
			}
		})
	}
	all.Wait()
	checkRawEvents(f)
}

// rawTest is the part of a test that one case is.
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

// endure sends a request to an engine that is hostile for it, between others for which it is not.
func endure(f *fleettest.Fleet, t testing.TB, pool string, e *rawEngine, stream bool, want ending) {
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[]}`, pool, stream)
	well := func() {
		t.Helper()
		w := wiretest.Dial(t, f.Entry.Address)
		defer w.Close()
		w.Post("/v1/chat/completions", body)
		if a := w.Read(); a.Status != 200 || a.Err != nil || !strings.Contains(a.Body, "well") || strings.Contains(a.Body, evil) {
			t.Errorf("beside it: %d %v %.300q", a.Status, a.Err, a.Body)
		}
	}
	well()
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
	if want == served && (a.Err != nil || !strings.Contains(a.Body, "well") || strings.Contains(a.Body, evil)) {
		t.Errorf("answer %v %.300q", a.Err, a.Body)
	}
	testkit.Within(t, 500*time.Millisecond, "the permit to be free", func() bool { return f.Pool("ams", pool).Held == 0 })
	if n := e.asked.Load() - before; n != 1 {
		t.Errorf("it was asked %d times, want once", n)
	}
	time.Sleep(50 * time.Millisecond) // for what it says later
	well()
	if n := e.misused.Load(); n > 0 {
		t.Errorf("%d requests on a connection that was not fit for them", n)
	}
}

func rawID(pool string, stream bool) string { return fmt.Sprintf("hostile-%s-%v", pool, stream) }

// checkRawEvents looks for the one final event of each node.
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
