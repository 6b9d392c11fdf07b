package messages_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"colonnade/openai"
	"colonnade/openai/messages"
)

func toChat(t *testing.T, body string, o messages.Options) (string, messages.Asked) {
	t.Helper()
	out, asked, err := messages.Request([]byte("<"), []byte(body), o)
	if err != nil {
		t.Fatalf("%s\n%v", body, err)
	}
	chat, ok := strings.CutPrefix(string(out), "<")
	if !ok || !json.Valid([]byte(chat)) {
		t.Fatalf("%s\ngave no JSON behind what was there: %s", body, out)
	}
	return chat, asked
}

func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// minimal returns a request with further members.
func minimal(members string) string {
	return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]` + members + `}`
}

func TestRequestFields(t *testing.T) {
	for members, want := range map[string]string{
		``:                     ``,
		`,"system":"be brief"`: ``, // see TestRequestMessages
		`,"stream":true`:       `"stream":true`,
		`,"stream":false`:      ``,
		`,"temperature":0.5,"top_p":0.25,"top_k":7`:                           `"temperature":0.5,"top_p":0.25,"top_k":7`,
		`,"stop_sequences":["a","\n"]`:                                        `"stop":["a","\n"]`,
		`,"stop_sequences":[]`:                                                ``,
		`,"metadata":{"user_id":"u"},"service_tier":"auto"`:                   ``,
		`,"cache_control":{"type":"ephemeral"}`:                               ``,
		`,"container":null,"mcp_servers":[],"temperature":null,"tools":[]`:    ``,
		`,"context_management":{"edits":[]}`:                                  ``,
		`,"thinking":{"type":"enabled","budget_tokens":1024}`:                 ``,
		`,"output_config":{"effort":"low"}`:                                   `"reasoning_effort":"low"`,
		`,"output_config":{"format":{"type":"json_schema","schema":{"a":1}}}`: `"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"a":1}}}`,
		`,"output_format":{"type":"json_schema","schema":{}}`:                 `"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{}}}`,
		`,"tools":[{"name":"f","input_schema":{"type":"object"}}]`:            `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`,
		`,"tools":[{"type":"custom","name":"f","description":"d","input_schema":{},"strict":true,"cache_control":{}},{"name":"g","input_schema":{}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}`: `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{},"strict":true}},{"type":"function","function":{"name":"g","parameters":{}}}],"tool_choice":"required","parallel_tool_calls":false`,
		`,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}`:                                                                                                                        `"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":{"type":"function","function":{"name":"f"}}`,
		`,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"none"}`:                                                                                                                                   `"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"none"`,
		`,"tool_choice":{"type":"auto"}`: ``,
	} {
		chat, _ := toChat(t, minimal(members), messages.Options{})
		conversation := `[{"role":"user","content":"hi"}]`
		if strings.Contains(members, "system") {
			conversation = `[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]`
		}
		if want != "" {
			want = "," + want
		}
		sameJSON(t, chat, `{"model":"m","max_tokens":9,"messages":`+conversation+want+`}`)
	}
}

func TestRequestOptions(t *testing.T) {
	chat, asked := toChat(t, minimal(`,"stream":true,"stop_sequences":["\u0041"],"thinking":{"type":"adaptive"}`), messages.Options{Model: "engine's", AskUsage: true})
	sameJSON(t, chat, `{"model":"engine's","max_tokens":9,"stream":true,"stream_options":{"include_usage":true},"stop":["A"],"messages":[{"role":"user","content":"hi"}]}`)
	if want := (messages.Asked{Stops: []string{"A"}, ShowThinking: true, Stream: true}); !reflect.DeepEqual(asked, want) {
		t.Fatalf("%+v", asked)
	}
	for _, hidden := range []string{`{"type":"disabled"}`, `{"type":"enabled","display":"omitted"}`} {
		if _, asked := toChat(t, minimal(`,"thinking":`+hidden), messages.Options{}); asked.ShowThinking {
			t.Fatalf("%s shows thinking", hidden)
		}
	}
}

func TestRequestMessages(t *testing.T) {
	for conversation, want := range map[string]string{
		`[{"role":"user","content":[{"type":"text","text":"a\n"},{"type":"text","text":"\u00e4","cache_control":{"type":"ephemeral"}}]}]`:                                                                                                                    `[{"role":"user","content":"a\n\nä"}]`,
		`[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`:                                                                                                                     `[{"role":"user","content":"a\nb"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`,
		`[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image\/\u0070ng","data":"QUJD"}},{"type":"image","source":{"type":"url","url":"https:\/\/x\/y.png"}},{"type":"text","text":"?"}]}]`: `[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"text","text":"?"}]}]`,
		`[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"let me"},{"type":"tool_use","id":"t1","name":"f","input":{"a":"\"\n"}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},{"role":"user","content":[{"type":"text","text":"also"},{"type":"tool_result","tool_use_id":"t1","content":"one"},{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"two"},{"type":"text","text":"lines"}]}]}]`: `[{"role":"user","content":"q"},{"role":"assistant","content":"let me","reasoning_content":"hm","tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\\"\\n\"}"}},{"id":"t2","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t1","content":"one"},{"role":"tool","tool_call_id":"t2","content":"Error: two\nlines"},{"role":"user","content":"also"}]`,
		`[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}]`:                                                                                                                               `[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t1","content":""}]`,
		`[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}]},{"type":"text","text":"what?"}]}]`: `[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t1","content":""},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}},{"type":"text","text":"what?"}]}]`,
		`[{"role":"user","content":[{"type":"document","title":"T","context":"C","citations":{"enabled":false},"source":{"type":"text","media_type":"text/plain","data":"D"}}]}]`:                                                                                                                                                  `[{"role":"user","content":"T\nC\nD"}]`,
		`[{"role":"user","content":"a"},{"role":"system","content":"be kind"}]`: `[{"role":"user","content":"a"},{"role":"system","content":"be kind"}]`,
		`[{"role":"user","content":[]}]`:                                        `[{"role":"user","content":""}]`,
	} {
		chat, _ := toChat(t, `{"model":"m","max_tokens":9,"messages":`+conversation+`}`, messages.Options{})
		sameJSON(t, chat, `{"model":"m","max_tokens":9,"messages":`+want+`}`)
	}
}

// A field that cannot be translated is refused by its place, and not left out.
func TestRequestRefused(t *testing.T) {
	content := func(block string) string {
		return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"user","content":[` + block + `]}]}`
	}
	for body, param := range map[string]string{
		`[]`: "", `{`: "", `{"model":"m","max_tokens":9,"messages":[]}`: "messages",
		`{"model":"m","messages":[{"role":"user","content":"a"}]}`:                                                            "max_tokens",
		`{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"a"}]}`:                                             "max_tokens",
		`{"model":"m","max_tokens":1.5,"messages":[{"role":"user","content":"a"}]}`:                                           "max_tokens",
		`{"model":"m","max_tokens":9}`:                                                                                        "messages",
		`{"model":"m","max_tokens":9,"messages":[{"role":"user"}]}`:                                                           "messages.0.content",
		`{"model":"m","max_tokens":9,"messages":[{"role":"tool","content":"a"}]}`:                                             "messages.0.role",
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a","name":"n"}]}`:                                  "messages.0.name",
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"The answer"}]}`: "messages",
		minimal(`,"inference_geo":"eu"`):                                                                                      "inference_geo",
		minimal(`,"container":"c"`):                                                                                           "container",
		minimal(`,"mcp_servers":[{"url":"x"}]`):                                                                               "mcp_servers",
		minimal(`,"n":2`):                                                                                                     "n",
		minimal(`,"top_k":"3"`):                                                                                               "top_k",
		minimal(`,"max_tokens":1`):                                                                                            "max_tokens",
		minimal(`,"stop_sequences":"a"`):                                                                                      "stop_sequences",
		minimal(`,"stop_sequences":[1]`):                                                                                      "stop_sequences.0",
		minimal(`,"thinking":{"type":"often"}`):                                                                               "thinking",
		minimal(`,"output_config":{"task_budget":{}}`):                                                                        "output_config.task_budget",
		minimal(`,"output_config":{"format":{"type":"regex"}}`):                                                               "output_config.format",
		minimal(`,"tools":[{"type":"web_search_20250305","name":"web_search"}]`):                                              "tools.0.type",
		minimal(`,"tools":[{"name":"f","input_schema":{},"defer_loading":true}]`):                                             "tools.0.defer_loading",
		minimal(`,"tools":[{"name":"f","input_schema":{},"input_examples":[{}]}]`):                                            "tools.0.input_examples",
		minimal(`,"tools":[{"name":"f"}]`):                                                                                    "tools.0.input_schema",
		minimal(`,"tools":[{"input_schema":{}}]`):                                                                             "tools.0.name",
		minimal(`,"tool_choice":{"type":"any"}`):                                                                              "tool_choice",
		minimal(`,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool"}`):                                    "tool_choice.name",
		content(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"x"}}`):                   "messages.1.content.0.source",
		content(`{"type":"document","citations":{"enabled":true,"x":false},"source":{"type":"text","media_type":"text/plain","data":"x"}}`): "messages.1.content.0.citations",
		content(`{"type":"text","text":"a"},{"type":"image","source":{"type":"file","file_id":"f"}}`):                                       "messages.1.content.1.source.file_id",
		content(`{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}`):                                                      "messages.1.content.0.source.url",
		content(`{"type":"image","source":{"type":"url","url":"/etc/passwd"}}`):                                                             "messages.1.content.0.source.url",
		content(`{"type":"image","source":{"type":"base64","media_type":"image/p\"g","data":"x"}}`):                                         "messages.1.content.0.source.media_type",
		content(`{"type":"search_result","title":"t"}`):                                                                                     "messages.1.content.0.type",
		content(`{"type":"tool_use","id":"a","name":"b","input":{}}`):                                                                       "messages.1.content.0.type",
		content(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"document"}]}`):                                                 "messages.1.content.0.content.0.type",
		content(`{"type":"text"}`):                       "messages.1.content.0.text",
		content(`{"type":"text","text":"a","text":"b"}`): "messages.1.content.0.text",
		content(`"text"`):                                "messages.1.content.0",
	} {
		out, _, err := messages.Request(nil, []byte(body), messages.Options{})
		if err == nil {
			t.Errorf("%s\nbecame %s", body, out)
			continue
		}
		if err.Status != 400 || err.Param != param || !strings.Contains(err.Message, param) {
			t.Errorf("%s\ngave %d %q %q, want param %q", body, err.Status, err.Param, err.Message, param)
		}
		if len(out) > 0 {
			t.Errorf("a refused request left %s", out)
		}
	}
}

func TestCount(t *testing.T) {
	body := `{"model":"m","system":"s","thinking":{"type":"adaptive"},"tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":"a"}]}`
	out, err := messages.CountRequest(nil, []byte(body), "e")
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, string(out), `{"model":"e","tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}],"add_generation_prompt":true}`)
	answer, failed := messages.CountResponse(nil, []byte(`{"tokens":[1,2,3],"count":3,"max_model_len":9}`))
	if failed != nil || string(answer) != `{"input_tokens":3}` {
		t.Fatalf("%s %v", answer, failed)
	}
	for body, want := range map[string]string{
		`{"tokenize_response":[{"id":1,"text":"a","start":0,"stop":1},{"id":2}],"templated_text":"[x]"}`: `{"input_tokens":2}`,
		`{"templated_text":"","tokenize_response":[]}`:                                                   `{"input_tokens":0}`,
	} {
		if answer, failed := messages.CountResponse(nil, []byte(body)); failed != nil || string(answer) != want {
			t.Errorf("%s: %s %v, want %s", body, answer, failed, want)
		}
	}
	for _, other := range []string{
		``, `{}`, `[1,2]`, `{"count":"3"}`, `{"count":3`, `{"tokenize_response":3}`, `{"tokenize_response":[1,2}`, `{"tokenize_response":[{"id":1}]`,
	} {
		if answer, failed := messages.CountResponse(nil, []byte(other)); failed == nil {
			t.Errorf("%s became %s", other, answer)
		}
	}
}

// Any body gives JSON that chat's own check of bodies accepts, or an error.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(minimal(`,"stream":true,"system":[{"type":"text","text":"s"}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}`)), true)
	f.Add([]byte(minimal(`,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":{"x":"\u0000"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true}]}]`)), false)
	f.Add([]byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"\\\""}}]}]}`), false)
	f.Fuzz(func(t *testing.T, body []byte, ask bool) {
		if _, err := openai.Peek(openai.Messages, "application/json", body); err != nil {
			return
		}
		out, _, err := messages.Request(nil, body, messages.Options{AskUsage: ask})
		if err != nil {
			if err.Status != 400 {
				t.Fatalf("%s: %v", body, err)
			}
			return
		}
		peeked, err := openai.Peek(openai.Chat, "application/json", out)
		if err != nil || !json.Valid(out) {
			t.Fatalf("%s\nbecame %s\n%v", body, out, err)
		}
		first, _ := openai.Peek(openai.Messages, "application/json", body)
		if peeked.Model != first.Model || peeked.Stream != first.Stream || peeked.MaxTokens != first.MaxTokens || peeked.EngineFields != 0 {
			t.Fatalf("%s\nbecame %s\n%+v\n%+v", body, out, first, peeked)
		}
	})
}

// Any body whose tokens can be counted gives JSON with the engine's model and a conversation.
func FuzzCountRequest(f *testing.F) {
	f.Add([]byte(minimal(`,"system":"s","tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"x"}`)))
	f.Add([]byte(minimal(`,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":{"x":"\u0000"}}]},{"role":"user","content":"x"}]`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := openai.Peek(openai.CountTokens, "application/json", body); err != nil {
			return
		}
		out, err := messages.CountRequest(nil, body, "e")
		if err != nil {
			if err.Status != 400 {
				t.Fatalf("%s: %v", body, err)
			}
			return
		}
		var asked struct {
			Model    string
			Messages []struct{ Role string }
			Prompt   bool `json:"add_generation_prompt"`
		}
		if err := json.Unmarshal(out, &asked); err != nil || asked.Model != "e" || len(asked.Messages) == 0 || !asked.Prompt {
			t.Fatalf("%s\nbecame %s\n%v", body, out, err)
		}
	})
}

// An answer has the count that encoding/json reads, or is refused.
func FuzzCountResponse(f *testing.F) {
	for _, body := range []string{`{"count":3}`, `{"tokenize_response":[{},1]}`, `{"count":1,"count":2}`, `{"count":-1}`, `{"count":1,"tokenize_response":[1,[2]]}`, `{"c\u006funt":4}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := messages.CountResponse(nil, body)
		if err != nil {
			return
		}
		var said map[string]int
		var was map[string]json.RawMessage
		if json.Unmarshal(out, &said) != nil || len(said) != 1 {
			t.Fatalf("%s\nbecame %s", body, out)
		}
		if json.Unmarshal(body, &was) != nil {
			return // in a form that only lax readers take
		}
		var count int
		var list []any
		isCount, isList := json.Unmarshal(was["count"], &count) == nil, json.Unmarshal(was["tokenize_response"], &list) == nil
		if n := said["input_tokens"]; !(isCount && n == count) && !(isList && n == len(list)) {
			t.Fatalf("%s\nbecame %s", body, out)
		}
	})
}
