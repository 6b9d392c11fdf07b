package simengine_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

const chatBody = `{"model":"m","messages":[{"role":"user","content":"one two three"}]`

func TestChat(t *testing.T) {
	_, addr := start(t, fast())
	f := func(more, text, reason string, tokens float64) {
		t.Helper()
		m := answerOf(t, addr, "/v1/chat/completions", chatBody+more+"}")
		if got := dig(m, "choices", 0, "message", "content"); text != "" && got != text {
			t.Errorf("%s: said %q, want %q", more, got, text)
		}
		if got := dig(m, "choices", 0, "finish_reason"); got != reason {
			t.Errorf("%s: finish_reason %v, want %v", more, got, reason)
		}
		if got := dig(m, "usage", "completion_tokens"); got != tokens {
			t.Errorf("%s: completion_tokens %v, want %v", more, got, tokens)
		}
		if got := dig(m, "usage", "prompt_tokens"); got != 3.0 && text == "" {
			t.Errorf("%s: prompt_tokens %v, want 3", more, got)
		}
	}
	f(``, "", "stop", 64)
	f(`,"max_tokens":5`, "every request takes its place", "length", 5)
	f(`,"max_completion_tokens":1`, "every", "length", 1)
	f(`,"max_tokens":1000`, "", "stop", 64)

	m := answerOf(t, addr, "/v1/chat/completions",
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"echo: a \"quoted\" ü"}]}]}`)
	if got := dig(m, "choices", 0, "message", "content"); got != `a "quoted" ü` {
		t.Errorf("echo said %q", got)
	}

	wide := func(more, finish string, tokens int) {
		t.Helper()
		m := answerOf(t, addr, "/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"wide:5000 and whatever else"}]`+more+"}")
		got, _ := dig(m, "choices", 0, "message", "content").(string)
		if len(got) != tokens*5000 || dig(m, "choices", 0, "finish_reason") != finish {
			t.Errorf("%s: %d bytes, ended by %v, want %d tokens of 5000", more, len(got), dig(m, "choices", 0, "finish_reason"), tokens)
		}
	}
	wide("", "stop", 64)
	wide(`,"max_tokens":3`, "length", 3)
}

func TestChatStream(t *testing.T) {
	_, addr := start(t, fast())
	f := func(more string, wantUsage bool) {
		t.Helper()
		resp := post(t, addr, "/v1/chat/completions", chatBody+`,"stream":true,"max_tokens":4`+more+"}")
		if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
			t.Errorf("content type %q", ct)
		}
		events := eventsOf(readAll(t, resp))
		if last := events[len(events)-1].data; last != "[DONE]" {
			t.Errorf("ends with %q", last)
		}
		var said strings.Builder
		var reason, used any
		for _, e := range events[:len(events)-1] {
			m := decode(t, e.data)
			if s, ok := dig(m, "choices", 0, "delta", "content").(string); ok {
				said.WriteString(s)
			}
			if r := dig(m, "choices", 0, "finish_reason"); r != nil {
				reason = r
			}
			if u := dig(m, "usage", "total_tokens"); u != nil {
				used = u
				if c, _ := m["choices"].([]any); c == nil || len(c) != 0 {
					t.Errorf("the usage event has choices %v", m["choices"])
				}
			}
		}
		if said.String() != "every request takes its" || reason != "length" {
			t.Errorf("said %q, ended by %v", said.String(), reason)
		}
		if (used == 7.0) != wantUsage {
			t.Errorf("usage %v, wanted: %v", used, wantUsage)
		}
	}
	f(``, false)
	f(`,"stream_options":{"include_usage":true}`, true)
}

func TestCompletion(t *testing.T) {
	_, addr := start(t, fast())
	m := answerOf(t, addr, "/v1/completions", `{"model":"m","prompt":"one two","max_tokens":2}`)
	if dig(m, "choices", 0, "text") != "every request" || dig(m, "usage", "total_tokens") != 4.0 {
		t.Errorf("plain: %v", m)
	}
	events := eventsOf(readAll(t, post(t, addr, "/v1/completions",
		`{"model":"m","prompt":[1,2,3],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`)))
	if len(events) != 5 || events[4].data != "[DONE]" {
		t.Fatalf("streamed: %v", events)
	}
	if got := dig(decode(t, events[3].data), "usage", "prompt_tokens"); got != 3.0 {
		t.Errorf("prompt_tokens %v, want 3", got)
	}
}

func TestResponses(t *testing.T) {
	_, addr := start(t, fast())
	const body = `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"one two"}]}]`
	m := answerOf(t, addr, "/v1/responses", body+"}")
	if m["status"] != "completed" || dig(m, "usage", "input_tokens") != 2.0 {
		t.Errorf("plain: %v", m)
	}
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "response.output_text.delta", "response.output_text.done",
		"response.content_part.done", "response.output_item.done", "response.incomplete",
	}
	events := eventsOf(readAll(t, post(t, addr, "/v1/responses", body+`,"stream":true,"max_output_tokens":2}`)))
	var names []string
	for i, e := range events {
		names = append(names, e.name)
		m := decode(t, e.data)
		if m["type"] != e.name || m["sequence_number"] != float64(i) {
			t.Errorf("event %d %s has type %v and number %v", i, e.name, m["type"], m["sequence_number"])
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("events\n%q, want\n%q", names, want)
	}
	last := decode(t, events[len(events)-1].data)
	if dig(last, "response", "output", 0, "content", 0, "text") != "every request" ||
		dig(last, "response", "incomplete_details", "reason") != "max_output_tokens" {
		t.Errorf("the last event is %v", last)
	}
}

func TestEmbeddings(t *testing.T) {
	_, addr := start(t, fast())
	f := func(input string, n int) {
		t.Helper()
		m := answerOf(t, addr, "/v1/embeddings", `{"model":"m","input":`+input+`,"dimensions":8}`)
		b := answerOf(t, addr, "/v1/embeddings", `{"model":"m","input":`+input+`,"dimensions":8,"encoding_format":"base64"}`)
		data, _ := m["data"].([]any)
		if len(data) != n {
			t.Fatalf("%s: %d vectors, want %d", input, len(data), n)
		}
		for i := range data {
			coded, err := base64.StdEncoding.DecodeString(dig(b, "data", i, "embedding").(string))
			if err != nil || len(coded) != 4*8 {
				t.Fatalf("%s: %d bytes of base64, %v", input, len(coded), err)
			}
			for k := range 8 {
				plain := float32(dig(data[i], "embedding", k).(float64))
				if math.Float32frombits(binary.LittleEndian.Uint32(coded[4*k:])) != plain {
					t.Errorf("%s: base64 and numbers differ at %d", input, k)
				}
			}
		}
	}
	f(`"one"`, 1)
	f(`["one","two"]`, 2)
	f(`[1,2,3]`, 1)
	f(`[[1,2],[3]]`, 2)
}

func TestMedia(t *testing.T) {
	_, addr := start(t, fast())
	f := func(path, body, want string) {
		t.Helper()
		resp := post(t, addr, path, body)
		if got := readAll(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(got, want) {
			t.Errorf("%s %s: %d %.200q, want %q in it", path, body, resp.StatusCode, got, want)
		}
	}
	f("/v1/rerank", `{"model":"m","query":"q","documents":["a","b"]}`, `"relevance_score":0.5`)
	f("/v1/images/generations", `{"model":"m","prompt":"p"}`, `"b64_json":`)
	f("/v1/images/generations", `{"model":"m","prompt":"p","stream":true}`, "event: image_generation.completed")
	f("/v1/audio/speech", `{"model":"m","input":"i","stream_format":"sse"}`, `"type":"speech.audio.done"`)

	if got := readAll(t, post(t, addr, "/v1/audio/speech", `{"model":"m","input":"i","bytes":100001}`)); len(got) != 100001 {
		t.Errorf("speech has %d bytes, want 100001", len(got))
	}
}

func TestTranscription(t *testing.T) {
	e, addr := start(t, fast())
	f := func(format, stream, want string) {
		t.Helper()
		var b bytes.Buffer
		form := multipart.NewWriter(&b)
		file, _ := form.CreateFormFile("file", "speech.wav")
		_, _ = file.Write(make([]byte, 4096))
		_ = form.WriteField("model", "m")
		_ = form.WriteField("response_format", format)
		_ = form.WriteField("stream", stream)
		_ = form.Close()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Post("http://"+addr+"/v1/audio/transcriptions", form.FormDataContentType(), &b)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, resp); !strings.Contains(got, want) {
			t.Errorf("%s %s: %.200q, want %q in it", format, stream, got, want)
		}
	}
	f("json", "false", `{"text":"every request`)
	f("text", "false", "every request")
	f("json", "true", `{"type":"transcript.text.done","text":"every request`)
	if st := e.Stats(); st.Served != 3 {
		t.Errorf("served %d, want 3", st.Served)
	}
}

func TestRefusals(t *testing.T) {
	c := fast()
	c.Models = []string{"m", "org/model"}
	e, addr := start(t, c)
	f := func(path, body string, status int, want string) {
		t.Helper()
		resp := post(t, addr, path, body)
		if got := readAll(t, resp); resp.StatusCode != status || !strings.Contains(got, want) {
			t.Errorf("%s %s: %d %s, want %d with %q", path, body, resp.StatusCode, got, status, want)
		}
	}
	f("/v1/chat/completions", `{"model":"n"}`, 404, `"model_not_found"`)
	f("/v1/chat/completions", `{"model":`, 400, "no JSON")
	f("/v1/chat/completions", `{}`, 400, `"param":"model"`)
	f("/v1/completions", `{"model":"m","max_tokens":0}`, 400, `"param":"max_tokens"`)
	f("/v1/audio/transcriptions", `{"model":"m"}`, 400, "multipart")
	f("/smuggled", ``, 404, "unknown_url")
	if st := e.Stats(); st.Unknown != 1 || st.Requests != 5 || st.Served != 0 {
		t.Errorf("stats %+v, want 1 unknown, 5 requests, none served", st)
	}
	if status, got := testkit.Get("http://" + addr + "/v1/models"); status != 200 || !strings.Contains(got, `"id":"org/model"`) {
		t.Errorf("models: %d %s", status, got)
	}
	if status, _ := testkit.Get("http://" + addr + "/v1/models/org%2Fmodel"); status != 200 {
		t.Errorf("a model with a slash: %d", status)
	}
	if status, _ := testkit.Get("http://" + addr + "/v1/models/n"); status != 404 {
		t.Errorf("an unknown model: %d", status)
	}
}

func TestProbes(t *testing.T) {
	c := fast()
	c.Record = 2
	e, addr := start(t, c)
	for _, body := range []string{`{"model":"a"}`, `{"model":"b"}`, `{"model":"c"}`} {
		readAll(t, post(t, addr, "/v1/chat/completions", body))
	}
	if got := e.Received(); len(got) != 2 || string(got[0].Body) != `{"model":"b"}` || got[1].Target != "/v1/chat/completions" {
		t.Errorf("received %+v", got)
	}
	f := func(path, want string) {
		t.Helper()
		if status, got := testkit.Get("http://" + addr + path); status != 200 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %q, want %q in it", path, status, got, want)
		}
	}
	f("/health", "")
	f("/api/version", "version")
	f("/stats", `{"running":0,"waiting":0,"peak":1,"served":3,"aborted":0,`)
	f("/metrics", "vllm:num_requests_running{model_name=\"demo\"} 0\n")
	f("/metrics", "vllm:num_requests_waiting{model_name=\"demo\"} 0\n")
	e.SetFault(simengine.Fault{Fault: simengine.FaultUnhealthy, Count: 1})
	if status, _ := testkit.Get("http://" + addr + "/health"); status != 503 {
		t.Errorf("unhealthy: %d, want 503", status)
	}
	f("/health", "")
}
