package streams_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

const (
	http10      = "HTTP/1.0 200 OK\r\n"
	closing     = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	jsonType    = typeJSON + "\r\n\r\n"
	srtType     = "Content-Type: text/srt\r\n\r\n"
	streamType  = "Content-Type: text/event-stream\r\n\r\n"
	smallJSON   = `{"id":"x","choices":[{"message":{"content":"a \"}]}\" b"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`
	transcript  = "1\n00:00:00,000 --> 00:00:01,000\nhello\n\n"
	chatPath    = "/v1/chat/completions"
	speechPath  = "/v1/audio/speech"
	requestHTTP = " HTTP/1.1"
)

// longJSON is longer than what is held of a response.
var longJSON = `{"choices":[{"message":{"content":"` + strings.Repeat("every request takes\\n", 10<<10) + `"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`

// endCase is how an engine ends a response, and what follows.
type endCase struct {
	name     string
	path     string // other than that of chats
	version  string // of the client's HTTP, if not 1.1
	stream   bool
	response rawResponse

	status  int
	framing string // how the client's response ends: "framed", "close", "cut", or "reset"
	body    string // exactly, or where it is cut, its longest prefix
	outcome analytics.Outcome
	reason  string
}

func cutJSON(head, body string) rawResponse { return writing(head + body).then(closes) }

// endCases are engines that answer without length and chunks, or with the length of a body that was cut before; or that send more
// behind the end of a stream.
func endCases() []endCase {
	const comments = ": queue position=7\n\n: x\n\n"
	half, longHalf := smallJSON[:len(smallJSON)-1], longJSON[:len(longJSON)-2]
	long := strings.Repeat(transcript, 5<<10)
	failed, completed := analytics.OutcomeEngineError, analytics.OutcomeCompleted
	return []endCase{
		{name: "small JSON, cut", response: cutJSON(http10+jsonType, half), status: 502, framing: "framed", outcome: failed, reason: "truncated"},
		{name: "no JSON at all", response: cutJSON(closing+jsonType, ""), status: 502, framing: "framed", outcome: failed, reason: "truncated"},
		{name: "small JSON, cut, with its length", response: framed("200 OK", half, typeJSON), status: 502, framing: "framed", outcome: failed, reason: "truncated"},
		{name: "long JSON, cut", response: cutJSON(closing+jsonType, longHalf), status: 200, framing: "cut", body: longHalf, outcome: failed, reason: "truncated"},
		{name: "long JSON, cut, with its length", response: framed("200 OK", longHalf, typeJSON), status: 200, framing: "cut", body: longHalf, outcome: failed, reason: "truncated"},
		{name: "long JSON, cut, in chunks", response: rawResponse{reusable: true, write: func(c *rawConn, _ bool) {
			c.say(okHead + "Transfer-Encoding: chunked\r\n\r\n" + wiretest.Chunked(longHalf, 8<<10))
		}}, status: 200, framing: "cut", body: longHalf, outcome: failed, reason: "truncated"},
		{name: "small JSON, whole", response: cutJSON(http10+jsonType, smallJSON+"\n"), status: 200, framing: "framed", body: smallJSON + "\n", outcome: completed},
		{name: "long JSON, whole", response: cutJSON(http10+jsonType, longJSON), status: 200, framing: "framed", body: longJSON, outcome: completed},
		{name: "long JSON, whole, for HTTP/1.0", version: " HTTP/1.0", response: cutJSON(http10+jsonType, longJSON), status: 200, framing: "close", body: longJSON, outcome: completed},
		{name: "long JSON, cut, for HTTP/1.0", version: " HTTP/1.0", response: cutJSON(http10+jsonType, longHalf), status: 200, framing: "reset", body: longHalf, outcome: failed, reason: "truncated"},
		{name: "a transcript", path: speechPath, response: cutJSON(http10+srtType, transcript), status: 200, framing: "close", body: transcript, outcome: completed, reason: "close_delimited"},
		{name: "no transcript at all", path: speechPath, response: cutJSON(closing+srtType, ""), status: 200, framing: "close", outcome: completed, reason: "close_delimited"},
		{name: "a long transcript", path: speechPath, response: cutJSON(closing+srtType, long), status: 200, framing: "close", body: long, outcome: completed, reason: "close_delimited"},
		{name: "a long transcript, reset", path: speechPath, response: writing(closing + srtType + long).then(resets), status: 200, framing: "reset", body: long, outcome: failed, reason: "truncated"},
		{name: "a stream with its end", stream: true, response: cutJSON(http10+streamType, rawEvent("a")+"data: [DONE]\n\n"), status: 200, framing: "framed", body: rawEvent("a") + "data: [DONE]\n\n", outcome: completed},
		{name: "a stream, cut", stream: true, response: cutJSON(closing+streamType, rawEvent("a")), status: 200, framing: "cut", outcome: failed, reason: "truncated"},
		{name: "a stream of an API without ends", path: "/v1/embeddings", stream: true, response: cutJSON(closing+streamType, rawEvent("a")), status: 200, framing: "cut", outcome: failed, reason: "truncated"},
		{name: "a stream with bytes behind its end", stream: true, response: writing(rawStream + rawChunk(comments+rawEvent("a")+"data: [DONE]\n\n"+rawEvent(evil)) + "0\r\n\r\n"),
			status: 200, framing: "framed", body: ":\n\n: x\n\n" + rawEvent("a") + "data: [DONE]\n\n", outcome: completed},
		{name: "a stream with endless bytes behind its end", stream: true, response: writing(rawStream + rawChunk(rawEvent("a")) + rawChunk("data: [DONE]\n\n")).then(repeating(rawChunk(": "+evil+"\n\n"), 0)),
			status: 200, framing: "framed", body: rawEvent("a") + "data: [DONE]\n\n", outcome: completed},
		{name: "a refusal, cut", response: cutJSON("HTTP/1.0 400 No\r\n"+jsonType, `{"error":{"message":"too lo`), status: 400, framing: "framed", outcome: completed},
	}
}

// A response gets no end that neither its framing nor its content shows, in both ways of calling a colo.
func TestEndsWithoutFraming(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		cases := endCases()
		engines := make([]*rawEngine, len(cases))
		for i, c := range cases {
			engines[i] = startRawEngine(t, c.response)
			engines[i].hostile.Store(true)
		}
		f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Direct: direct}, rawDocuments(engines))
		f.WatchShared(8 + 2*len(engines))
		var all sync.WaitGroup
		for i, c := range cases {
			all.Go(func() {
				c.run(rawTest{t, fmt.Sprintf("%s, direct %v", c.name, direct)}, f, fmt.Sprintf("raw%d", i), engines[i])
			})
		}
		all.Wait()
	}
}

func (c endCase) run(t testing.TB, f *fleettest.Fleet, model string, e *rawEngine) {
	path, version, id := c.path, c.version, "end-of-"+model
	if path == "" {
		path = chatPath
	}
	if version == "" {
		version = requestHTTP
	}
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"input":"x","messages":[]}`, model, c.stream)
	w := wiretest.Dial(t, f.Entry.Address)
	defer w.Close()
	w.Send("POST "+path+version, []string{"Host: fleet", typeJSON, fmt.Sprintf("Content-Length: %d", len(body)), "x-request-id: " + id}, body)
	a := w.Read()
	if a.Status != c.status {
		t.Errorf("status %d, want %d: %.200q", a.Status, c.status, a.Body)
	}
	c.checkFraming(t, w, a)
	for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
		if end := f.FinalEvent(kind, id); end.Outcome != c.outcome || end.Reason != c.reason || end.Partial != (c.outcome != analytics.OutcomeCompleted) {
			t.Errorf("%s event: outcome %s, reason %q, partial %v; want %s, %q", kind, end.Outcome, end.Reason, end.Partial, c.outcome, c.reason)
		}
	}
	if n := e.asked.Load(); n != 1 {
		t.Errorf("sent to the engine %d times, want once", n)
	}
	e.hostile.Store(false)
	_, _ = f.Post(t.Context(), chatPath, body)
	if n := e.misused.Load(); n > 0 {
		t.Error("a further request was sent on the connection of the response")
	}
}

func (c endCase) checkFraming(t testing.TB, w *wiretest.Conn, a wiretest.Response) {
	t.Helper()
	if want := c.framing == "close" || c.framing == "reset"; a.CloseDelimited != want {
		t.Errorf("delimited by the end of the connection: %v, header %v", a.CloseDelimited, a.Header)
	}
	switch c.framing {
	case "cut":
		if !errors.Is(a.Err, io.ErrUnexpectedEOF) && !errors.Is(a.Err, io.EOF) || !strings.HasPrefix(c.body, a.Body) && c.body != "" {
			t.Errorf("ended with %v after %d bytes, want it cut", a.Err, len(a.Body))
		}
		if a.Err == nil {
			return
		}
		if how := w.End(); how != "closed" {
			t.Errorf("the connection ended: %s", how)
		}
	case "reset":
		if !errors.Is(a.Err, syscall.ECONNRESET) || !strings.HasPrefix(c.body, a.Body) {
			t.Errorf("ended with %v after %d bytes, want it reset", a.Err, len(a.Body))
		}
	default:
		if a.Err != nil || c.status == 200 && a.Body != c.body {
			t.Errorf("ended with %v, %d bytes %.200q, want %d", a.Err, len(a.Body), a.Body, len(c.body))
		}
	}
}
