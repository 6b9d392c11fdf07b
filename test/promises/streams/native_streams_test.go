package streams_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// nativeStream is a stream of an API that is not OpenAI's: its events, of which the last is its end.
type nativeStream struct {
	name, engine, path, body string
	contentType              string
	events                   []string
	fault                    string // an error event of the engine
	full                     string // an error event of an engine without room
	prompt, completion       int

	// errorIn returns the message and the number in an error of Colonnade's, which has the shape of the API.
	errorIn func(t testing.TB, body string) (message string, number int)
}

const lines, sse = "application/x-ndjson", "text/event-stream"

func nativeStreams() []nativeStream {
	event := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
	}
	data := func(json string) string { return "data: " + json + "\n\n" }
	return []nativeStream{
		{
			name: "messages", engine: "vllm", path: "/v1/messages", contentType: sse, prompt: 12, completion: 2, errorIn: anthropicError,
			body: `{"model":%q,"stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}],"seed":%d}`,
			events: []string{
				event("message_start", `,"message":{"id":"msg_1","content":[],"usage":{"input_tokens":12,"output_tokens":0}}`),
				event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`),
				event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"every "}`),
				event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"request"}`),
				event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":12,"output_tokens":2}`),
				event("message_stop", ""),
			},
			fault: event("error", `,"error":{"type":"internal_error","message":"on purpose"}`), full: event("error", `,"error":{"type":"overloaded_error","message":"x"}`),
		},
		{
			name: "ollama-chat", engine: "ollama", path: "/api/chat", contentType: lines, prompt: 5, completion: 2, errorIn: flatError,
			body: `{"model":%q,"messages":[{"role":"user","content":"x"}],"seed":%d}`, // which streams
			events: []string{
				`{"model":"m","message":{"role":"assistant","content":"every "},"done":false}` + "\n",
				`{"model":"m","message":{"role":"assistant","content":"request"},"done":false}` + "\n",
				`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":5,"eval_count":2}` + "\n",
			},
			fault: `{"error":"on purpose"}` + "\n", full: `{"error":"x","status":503}` + "\n",
		},
		{
			name: "ollama-generate", engine: "ollama", path: "/api/generate", contentType: lines, prompt: 5, completion: 2, errorIn: flatError,
			body: `{"model":%q,"prompt":"x","seed":%d}`,
			events: []string{
				`{"model":"m","response":"every ","done":false}` + "\n",
				`{"model":"m","response":"request","done":false}` + "\n",
				`{"model":"m","response":"","done":true,"context":[1,2],"prompt_eval_count":5,"eval_count":2}` + "\n",
			},
			fault: `{"error":"on purpose"}` + "\n", full: `{"error":"x","status":503}` + "\n",
		},
		{
			name: "tgi", engine: "tgi", path: "/generate_stream", contentType: sse, prompt: 7, completion: 2, errorIn: flatError,
			body: `{"model":%q,"inputs":"x","parameters":{"details":true},"seed":%d}`,
			events: []string{
				data(`{"index":1,"token":{"id":1,"text":"every "},"generated_text":null,"details":null}`),
				data(`{"index":2,"token":{"id":2,"text":"request"},"generated_text":"every request","details":{"generated_tokens":2,"input_length":7}}`),
			},
			fault: data(`{"error":"on purpose","error_type":"generation"}`), full: data(`{"error":"Model is overloaded","error_type":"overloaded"}`),
		},
		{
			name: "infill", engine: "llamacpp", path: "/infill", contentType: sse, prompt: 8, completion: 2, errorIn: openAIError,
			body: `{"model":%q,"stream":true,"input_prefix":"x","input_suffix":"y","seed":%d}`,
			events: []string{
				data(`{"index":0,"content":"every ","stop":false,"tokens_predicted":1,"tokens_evaluated":8}`),
				data(`{"index":0,"content":"request","stop":false,"tokens_predicted":2,"tokens_evaluated":8}`),
				data(`{"index":0,"content":"","stop":true,"tokens_predicted":2,"tokens_evaluated":8}`),
			},
			fault: data(`{"error":{"code":500,"message":"on purpose","type":"server_error"}}`), full: data(`{"error":{"code":503,"message":"x","type":"unavailable_error"}}`),
		},
		{
			name: "completion", engine: "llamacpp", path: "/completion", contentType: sse, prompt: 16, completion: 3, errorIn: openAIError,
			body: `{"model":%q,"stream":true,"n_cmpl":2,"prompt":"x","seed":%d}`,
			events: []string{
				data(`{"index":0,"content":"every ","stop":false,"tokens_predicted":1,"tokens_evaluated":8}`),
				data(`{"index":1,"content":"request","stop":false,"tokens_predicted":1,"tokens_evaluated":8}`),
				data(`{"index":1,"content":"","stop":true,"tokens_predicted":1,"tokens_evaluated":8}`),
				data(`{"index":0,"content":"","stop":true,"tokens_predicted":2,"tokens_evaluated":8}`),
			},
			fault: data(`{"error":{"code":500,"message":"on purpose","type":"server_error"}}`), full: data(`{"error":{"code":503,"message":"x","type":"unavailable_error"}}`),
		},
		{ // the second waits for a slot of the engine
			name: "two-prompts", engine: "llamacpp", path: "/completion", contentType: sse, prompt: 17, completion: 2, errorIn: openAIError,
			body: `{"model":%q,"stream":true,"prompt":["x","y"],"seed":%d}`,
			events: []string{
				data(`{"index":0,"content":"every","stop":false,"tokens_predicted":1,"tokens_evaluated":8}`),
				data(`{"index":0,"content":"","stop":true,"tokens_predicted":1,"tokens_evaluated":8}`),
				data(`{"index":1,"content":"request","stop":false,"tokens_predicted":1,"tokens_evaluated":9}`),
				data(`{"index":1,"content":"","stop":true,"tokens_predicted":1,"tokens_evaluated":9}`),
			},
			fault: data(`{"error":{"code":500,"message":"on purpose","type":"server_error"}}`), full: data(`{"error":{"code":503,"message":"x","type":"unavailable_error"}}`),
		},
	}
}

func decodeAs[T any](t testing.TB, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Errorf("%.300q: %v", body, err)
	}
	return v
}

func anthropicError(t testing.TB, body string) (string, int) {
	e := decodeAs[struct {
		Type      string            `json:"type"`
		Error     wiretest.APIError `json:"error"`
		RequestID string            `json:"request_id"`
	}](t, body)
	if e.Type != "error" || e.Error.Type == "" || e.RequestID == "" {
		t.Errorf("no error of Anthropic's API: %s", body)
	}
	return e.Error.Message, e.Error.Number
}

// flatError reads an error of Ollama's or TGI's API.
func flatError(t testing.TB, body string) (string, int) {
	e := decodeAs[struct {
		Error     string `json:"error"`
		Number    int    `json:"number"`
		RequestID string `json:"request_id"`
	}](t, body)
	if e.RequestID == "" {
		t.Errorf("no request id: %s", body)
	}
	return e.Error, e.Number
}

func openAIError(t testing.TB, body string) (string, int) {
	e := decodeAs[struct {
		Error wiretest.APIError `json:"error"`
	}](t, body)
	return e.Error.Message, e.Error.Number
}

// script is what an engine writes behind the head of a stream, each piece in a chunk, and then the last chunk or the end of its connection.
type script struct {
	name   string
	pieces []string
	closes bool

	body    string // for the client, without an error of Colonnade's
	cut     bool   // for the client, with such an error
	outcome analytics.Outcome
	reason  string
	status  int // other than 200: the error is the response
	number  int
}

func (s nativeStream) scripts() (all []script) {
	whole := strings.Join(s.events, "")
	n := len(s.events)
	add := func(c script) { all = append(all, c) }
	served := script{body: whole, outcome: analytics.OutcomeCompleted}
	with := func(c script, name string, closes bool, pieces ...string) script {
		c.name, c.closes, c.pieces = name, closes, pieces
		return c
	}
	add(with(served, "whole", false, s.events...))
	add(with(served, "in one chunk", false, whole))
	add(with(served, "a byte a chunk", false, strings.Split(whole, "")...))
	add(with(served, "bytes behind the end", false, whole, s.events[0], "\n\n: x\n\n"))
	add(with(served, "without its framing", true, s.events...))
	for i := 1; i < n; i++ {
		cut := script{body: strings.Join(s.events[:i], ""), cut: true, outcome: analytics.OutcomeEngineError, reason: "truncated"}
		add(with(cut, fmt.Sprintf("cut behind event %d", i), false, s.events[:i]...))
		add(with(cut, fmt.Sprintf("cut behind event %d, without framing", i), true, s.events[:i]...))
		half := s.events[i][:len(s.events[i])/2]
		add(with(cut, fmt.Sprintf("cut in event %d", i+1), false, cut.body+half))
		add(with(cut, fmt.Sprintf("cut in event %d, without framing", i+1), true, cut.body, half))
	}
	failed := script{body: s.events[0] + s.fault, outcome: analytics.OutcomeEngineError, reason: "error_event"}
	add(with(failed, "an error event", false, s.events[0], s.fault))
	failed.body += s.events[n-1] // an error before the end does not become an answer by it
	add(with(failed, "an error event, and the end", false, s.events[0], s.fault, s.events[n-1]))
	add(with(script{status: 502, number: 50001, outcome: analytics.OutcomeEngineError, reason: "engine_status"}, "an error event at once", false, s.fault))
	add(with(script{status: 429, number: 42902, outcome: analytics.OutcomeRefused}, "full at once", false, s.full))
	return all
}

// slowPieces is how many pieces an engine writes at once.
const slowPieces = 20

var seedIn = regexp.MustCompile(`"seed":(\d+)`)

// startScriptedEngine runs an engine that answers a request by the script that its seed names.
func startScriptedEngine(t testing.TB, contentType string, scripts []script) (url string) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nTransfer-Encoding: chunked\r\n\r\n"
	return "http://" + testkit.Serve(t, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			_ = nc.SetDeadline(time.Now().Add(4 * testkit.Timeout))
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			text, closes := wiretest.EncodeResponse("200 OK", ""), false
			if named := seedIn.FindSubmatch(body); named != nil {
				i, _ := strconv.Atoi(string(named[1]))
				s := scripts[i]
				text, closes = head, s.closes
				for _, p := range s.pieces {
					if text += rawChunk(p); len(s.pieces) > slowPieces { // so that they arrive one by one, as the pieces of a stream that is followed
						_, _ = io.WriteString(nc, text)
						text = ""
						time.Sleep(time.Millisecond)
					}
				}
				if !closes {
					text += "0\r\n\r\n"
				}
			}
			if _, err := io.WriteString(nc, text); err != nil || closes {
				_ = nc.Close()
				return
			}
		}
	})
}

// A stream of each API passes byte for byte up to its own end and no further; one without that end never looks complete, and ends with an error in the
// shape of its API. This holds in both ways of calling a colo.
func TestNativeStreams(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		var documents strings.Builder
		documents.WriteString("key: defaults\nmodel: {timeouts: {connect: 20s}}\n")
		all := nativeStreams()
		for _, s := range all {
			fmt.Fprintf(&documents, "---\nkey: endpoints/ams/%s\nurl: %s\npool: %s\nengine: %s\nconcurrency: 2\n---\nkey: models/%s\npool: %s\ntype: generic\n",
				s.name, startScriptedEngine(t, s.contentType, s.scripts()), s.name, s.engine, s.name, s.name)
		}
		f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Direct: direct}, documents.String())
		f.WatchShared(8 + 2*len(all))
		var running sync.WaitGroup
		for _, s := range all {
			running.Go(func() {
				for i, c := range s.scripts() {
					s.run(rawTest{t, fmt.Sprintf("%s, %s, direct %v", s.name, c.name, direct)}, f, i, c)
				}
			})
		}
		running.Wait()
	}
}

func (s nativeStream) run(t testing.TB, f *fleettest.Fleet, i int, c script) {
	id := fmt.Sprintf("native-%s-%d", s.name, i)
	w := wiretest.Dial(t, f.Entry.Address)
	defer w.Close()
	w.Post(s.path, fmt.Sprintf(s.body, s.name, i), "x-request-id: "+id)
	a := w.Read()
	end := f.FinalEvent(analytics.KindRequest, id)
	if end.Outcome != c.outcome || c.reason != "" && end.Reason != c.reason {
		t.Errorf("outcome %s, reason %q; want %s, %q", end.Outcome, end.Reason, c.outcome, c.reason)
	}
	if c.status != 0 {
		if _, number := s.errorIn(t, a.Body); a.Status != c.status || number != c.number || !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
			t.Errorf("status %d, %s, error %d; want %d, %d", a.Status, a.Header.Get("Content-Type"), number, c.status, c.number)
		}
		return
	}
	if got := a.Header.Get("Content-Type"); a.Status != 200 || got != s.contentType {
		t.Errorf("status %d, content type %q", a.Status, got)
	}
	if !c.cut {
		if a.Err != nil || a.Body != c.body {
			t.Errorf("ended with %v: %q, want %q", a.Err, a.Body, c.body)
		}
		if inference := f.FinalEvent(analytics.KindInference, id); c.outcome == analytics.OutcomeCompleted &&
			(inference.PromptTokens != s.prompt || inference.CompletionTokens != s.completion) {
			t.Errorf("usage %d and %d, want %d and %d", inference.PromptTokens, inference.CompletionTokens, s.prompt, s.completion)
		}
		return
	}
	rest, found := strings.CutPrefix(a.Body, c.body)
	if !found {
		t.Errorf("delivered %q, want %q first", a.Body, c.body)
		return
	}
	if s.contentType == sse {
		rest, found = strings.CutSuffix(rest, "\n\n")
		_, rest, _ = strings.Cut(rest, "data: ")
	} else {
		rest, found = strings.CutSuffix(rest, "\n")
	}
	if _, number := s.errorIn(t, rest); !found || number != 50001 {
		t.Errorf("error %q", rest)
	}
	expectCut(t, w, a)
}
