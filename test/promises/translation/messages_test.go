package translation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// kinds are kinds of engines that have no Messages API.
var kinds = []string{"openai", "tgi", "triton"}

func start(t *testing.T, c simengine.Config) (*fleettest.Fleet, *simengine.Engine) {
	t.Helper()
	c.Tokens, c.TTFT, c.ITL = 6, -1, -1
	e, documents := fleettest.StartKind(t, "own", c, "")
	return fleettest.Start(t, onebox.Config{}, documents), e
}

// post sends a request with so many tokens and further members, and returns the answer.
func post(t *testing.T, f *fleettest.Fleet, id, prompt, members string) wiretest.Response {
	t.Helper()
	text, err := json.Marshal(prompt)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"model":"own","max_tokens":4,"messages":[{"role":"user","content":%s}]%s}`, text, members)
	answer, err := f.Post(context.Background(), "/messages", body, "x-request-id", id, "anthropic-version", "2023-06-01")
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// message is an answer as clients read it.
type message struct {
	Type       string
	Content    []block
	StopReason string `json:"stop_reason"`
	Usage      struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	}
}

type block struct {
	Type, Text, Name string
	Input            json.RawMessage
}

// readMessage reads a whole answer, or a stream up to message_stop.
func readMessage(t *testing.T, a wiretest.Response, stream bool) (m message) {
	t.Helper()
	if a.Status != 200 || a.Err != nil {
		t.Fatalf("%d %v %.500s", a.Status, a.Err, a.Body)
	}
	if !stream {
		if err := json.Unmarshal([]byte(a.Body), &m); err != nil {
			t.Fatalf("%v: %.500s", err, a.Body)
		}
		return m
	}
	if !strings.HasPrefix(a.Body, "event: message_start\n") || !strings.HasSuffix(a.Body, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") {
		t.Fatalf("the stream is not whole: %.300s … %s", a.Body, a.Body[max(0, len(a.Body)-300):])
	}
	m.Type = "message"
	for event := range strings.SplitSeq(strings.TrimSuffix(a.Body, "\n\n"), "\n\n") {
		_, data, _ := strings.Cut(event, "\ndata: ")
		addEvent(t, &m, data)
	}
	return m
}

func addEvent(t *testing.T, m *message, data string) {
	t.Helper()
	var e struct {
		Block *block `json:"content_block"`
		Delta struct {
			Text       string
			JSON       string `json:"partial_json"`
			StopReason string `json:"stop_reason"`
		}
		Usage *struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if e.Block != nil {
		e.Block.Input = nil
		m.Content = append(m.Content, *e.Block)
	}
	if n := len(m.Content) - 1; n >= 0 {
		m.Content[n].Text += e.Delta.Text
		m.Content[n].Input = append(m.Content[n].Input, e.Delta.JSON...)
	}
	if e.Usage != nil {
		m.StopReason, m.Usage.Input, m.Usage.Output = e.Delta.StopReason, e.Usage.Input, e.Usage.Output
	}
}

// each calls test for an answer as a whole and as a stream.
func each(t *testing.T, test func(t *testing.T, stream bool, id, members string)) {
	for _, stream := range []bool{false, true} {
		id := fmt.Sprintf("request-%v", stream)
		t.Run(id, func(t *testing.T) { test(t, stream, id, fmt.Sprintf(`,"stream":%v`, stream)) })
	}
}

// A request is answered, and bills what the engine has reported, as the same chat does.
func TestAnswered(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f, _ := start(t, simengine.Config{Kind: kind})
			each(t, func(t *testing.T, stream bool, id, members string) {
				m := readMessage(t, post(t, f, id, "one two three", members+`,"system":"be brief"`), stream)
				if m.Type != "message" || len(m.Content) != 1 || m.Content[0].Text != "every request takes its" || m.StopReason != "max_tokens" || m.Usage.Output != 4 || m.Usage.Input == 0 {
					t.Errorf("%+v", m)
				}
				for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
					final := f.In(t).FinalEvent(kind, id)
					if final.Outcome != analytics.OutcomeCompleted || final.Streamed != stream || final.BytesOut == 0 {
						t.Errorf("%+v", final)
					}
					if kind == analytics.KindInference && (final.PromptTokens != m.Usage.Input || final.CompletionTokens != 4 || final.TokensEstimated != 0) {
						t.Errorf("billed %d and %d (%d estimated) of %+v", final.PromptTokens, final.CompletionTokens, final.TokensEstimated, m.Usage)
					}
				}
			})
		})
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	f, _ := start(t, simengine.Config{Kind: "openai"})
	each(t, func(t *testing.T, stream bool, id, members string) {
		m := readMessage(t, post(t, f, id, `call: weather {"city":"Paris"}`, members+`,"tools":[{"name":"weather","input_schema":{"type":"object"}}]`), stream)
		if len(m.Content) != 1 || m.Content[0].Name != "weather" || string(m.Content[0].Input) != `{"city":"Paris"}` || m.StopReason != "tool_use" {
			t.Errorf("%+v", m)
		}
	})
}

// An answer that is longer than what is usually held is translated, too.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	f, _ := start(t, simengine.Config{Kind: "openai"})
	each(t, func(t *testing.T, stream bool, id, members string) {
		m := readMessage(t, post(t, f, id, "wide:200000", members), stream)
		if len(m.Content) != 1 || len(m.Content[0].Text) < 4*200000 || m.Usage.Output != 4 {
			t.Errorf("%d blocks, %+v", len(m.Content), m.Usage)
		}
	})
}

// A stream that is cut, or that the engine ends with an error, never looks complete: it has an error in Anthropic's shape, and no
// message_stop. A whole answer that is cut is none.
func TestCut(t *testing.T) {
	t.Parallel()
	f, e := start(t, simengine.Config{Kind: "openai"})
	for _, fault := range []string{simengine.FaultCutAtChunk, simengine.FaultCutInChunk, simengine.FaultNoDone, simengine.FaultErrorThenDone, simengine.FaultErrorThenCut} {
		e.SetFault(simengine.Fault{Fault: fault, Count: 1})
		a := post(t, f, "stream-"+fault, "hello", `,"stream":true`)
		if n := strings.Count(a.Body, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\""); n != 1 || strings.Contains(a.Body, "message_stop") || strings.Contains(a.Body, "message_delta") {
			t.Errorf("%s: %d errors: %s", fault, n, a.Body)
		}
		if !strings.Contains(a.Body, `"number":50001`) || strings.Count(a.Body, `"request_id":"`) != 2 {
			t.Errorf("%s: another number or id: %s", fault, a.Body)
		}
		if final := f.FinalEvent(analytics.KindInference, "stream-"+fault); final.Outcome != analytics.OutcomeEngineError || !final.Partial {
			t.Errorf("%s ended as %s", fault, final.Outcome)
		}
		testkit.WaitFor(t, "the slot", func() bool { return fleettest.InFlight(e) == 0 })
	}
	e.SetFault(simengine.Fault{Fault: simengine.FaultCutInChunk})
	a := post(t, f, "whole", "hello", "")
	if a.Status != 502 || !strings.HasPrefix(a.Body, `{"type":"error","error":{"type":"api_error"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestEngineErrors(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		f, e := start(t, simengine.Config{Kind: kind})
		for fault, status := range map[string]int{simengine.FaultError400: 400, simengine.FaultError500: 502, simengine.FaultFull: 429} {
			each(t, func(t *testing.T, _ bool, id, members string) {
				e.SetFault(simengine.Fault{Fault: fault})
				a := post(t, f.In(t), kind+fault+id, "hello", members+"")
				if class := a.Status / 100; class != status/100 || !strings.HasPrefix(a.Body, `{"type":"error","error":{"type":"`) {
					t.Errorf("%s %s: %d %s", kind, fault, a.Status, a.Body)
				}
			})
		}
	}
}

// In a pool in which one engine has the Messages API, requests that cannot be translated go to that engine alone; all others go to both.
func TestPoolOfTwoKinds(t *testing.T) {
	t.Parallel()
	ofKind := func(kind string) (*simengine.Engine, string) {
		e, documents := fleettest.StartKind(t, "own", simengine.Config{Kind: kind, Tokens: 6, TTFT: -1, ITL: -1}, "")
		return e, strings.ReplaceAll(documents, "endpoints/ams/own", "endpoints/ams/own-"+kind)
	}
	passes, first := ofKind("vllm")
	translates, second := ofKind("openai")
	_, second, _ = strings.Cut(second, "---\nkey: endpoints/")
	second, _, _ = strings.Cut(second, "---\n")
	f := fleettest.Start(t, onebox.Config{}, first+"---\nkey: endpoints/"+second)
	for range 8 {
		if a := post(t, f, "", "hello", `,"inference_geo":"eu"`); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if has, lacks := passes.Stats(), translates.Stats(); has.Served != 8 || lacks.Requests != 0 {
		t.Errorf("the engine with the path: %+v; the other: %+v", has, lacks)
	}
	for range 8 {
		if a := post(t, f, "", "hello", ""); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if n := translates.Stats().Served; n == 0 {
		t.Error("the engine without the path served nothing")
	}
}

// A request that cannot be translated is refused by the name of the field, and never reaches the engine.
func TestRefused(t *testing.T) {
	t.Parallel()
	f, e := start(t, simengine.Config{Kind: "tgi", Slots: 1})
	for range 3 { // more than there are slots
		a := post(t, f, "", "hello", `,"inference_geo":"eu"`)
		if a.Status != 400 || !strings.HasPrefix(a.Body, `{"type":"error","error":{"type":"invalid_request_error","message":"inference_geo: `) {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	if n := e.Stats().Requests; n != 0 {
		t.Errorf("the engine got %d requests", n)
	}
}

// An engine that is not known to have the path counts tokens by /tokenize, if it has that, and TGI by /chat_tokenize. Kinds without either get no
// request.
func TestCountTokens(t *testing.T) {
	t.Parallel()
	t.Run("openai", func(t *testing.T) { countTokens(t, "vllm", "openai") })
	t.Run("tgi", func(t *testing.T) { countTokens(t, "tgi", "tgi") })
	for _, kind := range []string{"ollama", "triton"} {
		t.Run(kind, func(t *testing.T) {
			e, documents := fleettest.StartKind(t, "own", simengine.Config{Kind: kind}, "")
			f := fleettest.Start(t, onebox.Config{}, documents)
			a, err := f.Post(context.Background(), "/messages/count_tokens", `{"model":"own","messages":[{"role":"user","content":"one"}]}`)
			if err != nil || a.Status != 404 || !strings.Contains(a.Body, `"number":40005`) || !strings.Contains(a.Body, "/v1/messages/count_tokens") {
				t.Errorf("%v %d %s", err, a.Status, a.Body)
			}
			if n := e.Stats().Requests; n != 0 {
				t.Errorf("the engine got %d requests", n)
			}
		})
	}
}

// countTokens counts with an engine of a kind, whose document says another.
func countTokens(t *testing.T, kind, said string) {
	_, documents := fleettest.StartKind(t, "own", simengine.Config{Kind: kind}, "")
	f := fleettest.Start(t, onebox.Config{}, strings.Replace(documents, "engine: "+kind, "engine: "+said, 1))
	const body = `{"model":"own","messages":[{"role":"user","content":"one two three"}]}`
	a, err := f.Post(context.Background(), "/messages/count_tokens", body)
	if err != nil || a.Status != 200 || a.Body != `{"input_tokens":3}` {
		t.Errorf("%v %d %s", err, a.Status, a.Body)
	}
	a, err = f.Post(context.Background(), "/messages/count_tokens", strings.Replace(body, `"model"`, `"container":"c","model"`, 1))
	if err != nil || a.Status != 400 || !strings.Contains(a.Body, `"message":"container: `) {
		t.Errorf("%v %d %s", err, a.Status, a.Body)
	}
}
