package messages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"colonnade/openai"
	"colonnade/openai/messages"
)

func answered(t *testing.T, body string, a messages.Asked) string {
	t.Helper()
	out, err := messages.Response([]byte("<"), []byte(body), &a)
	if err != nil {
		t.Fatalf("%s\n%v", body, err)
	}
	return strings.TrimPrefix(string(out), "<")
}

// chatAnswer returns an answer with this message and finish_reason.
func chatAnswer(message, finish string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",` + message + `},"logprobs":null,"finish_reason":` + finish + `}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":3}}}`
}

const messageUsage = `{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":4}`

func TestResponse(t *testing.T) {
	stops := messages.Asked{Stops: []string{"END", "\n\n"}}
	for _, c := range []struct {
		message, finish string
		asked           messages.Asked
		content, ending string
	}{
		{`"content":"hi\n"`, `"stop"`, messages.Asked{}, `[{"type":"text","text":"hi\n"}]`, `"end_turn","stop_sequence":null`},
		{`"content":"hi"`, `"length"`, messages.Asked{}, `[{"type":"text","text":"hi"}]`, `"max_tokens","stop_sequence":null`},
		{`"content":"hi"`, `"content_filter"`, messages.Asked{}, `[{"type":"text","text":"hi"}]`, `"refusal","stop_sequence":null`},
		{`"content":"hi"`, `"eos_token"`, messages.Asked{}, `[{"type":"text","text":"hi"}]`, `"end_turn","stop_sequence":null`},
		{`"content":"hi"`, `null`, messages.Asked{}, `[{"type":"text","text":"hi"}]`, `"end_turn","stop_sequence":null`},
		{`"content":""`, `"stop"`, messages.Asked{}, `[]`, `"end_turn","stop_sequence":null`},
		{`"content":"hi"`, `"stop","stop_reason":"\n\n"`, stops, `[{"type":"text","text":"hi"}]`, `"stop_sequence","stop_sequence":"\n\n"`},
		{`"content":"hi"`, `"stop","matched_stop":"END"`, stops, `[{"type":"text","text":"hi"}]`, `"stop_sequence","stop_sequence":"END"`},
		{`"content":"hi"`, `"stop","stop_reason":"other"`, stops, `[{"type":"text","text":"hi"}]`, `"end_turn","stop_sequence":null`},
		{`"content":"hi"`, `"stop","matched_stop":128009`, stops, `[{"type":"text","text":"hi"}]`, `"end_turn","stop_sequence":null`},
		{`"content":"hi"`, `"stop_sequence"`, stops, `[{"type":"text","text":"hi"}]`, `"stop_sequence","stop_sequence":null`},
		{`"content":"hi"`, `"stop_sequence"`, messages.Asked{Stops: []string{"END"}}, `[{"type":"text","text":"hi"}]`, `"stop_sequence","stop_sequence":"END"`},
		{`"content":null,"refusal":"no"`, `"stop"`, messages.Asked{}, `[{"type":"text","text":"no"}]`, `"refusal","stop_sequence":null`},
		{`"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `"stop"`, messages.Asked{}, `[{"type":"text","text":"ab"}]`, `"end_turn","stop_sequence":null`},
		{`"reasoning_content":"hm","content":"a"`, `"stop"`, messages.Asked{ShowThinking: true}, `[{"type":"thinking","thinking":"hm","signature":"unsigned"},{"type":"text","text":"a"}]`, `"end_turn","stop_sequence":null`},
		{`"reasoning_content":null,"reasoning":"hm","content":"a"`, `"stop"`, messages.Asked{ShowThinking: true}, `[{"type":"thinking","thinking":"hm","signature":"unsigned"},{"type":"text","text":"a"}]`, `"end_turn","stop_sequence":null`},
		{`"reasoning":"hm","content":"a"`, `"stop"`, messages.Asked{}, `[{"type":"text","text":"a"}]`, `"end_turn","stop_sequence":null`},
		{`"content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\": [1]}"}},{"function":{"name":"g","arguments":{"b":2}}},{"id":"t3","function":{"name":"h","arguments":""}}]`, `"tool_calls"`, messages.Asked{}, `[{"type":"tool_use","id":"t1","name":"f","input":{"a":[1]}},{"type":"tool_use","id":"toolu_1","name":"g","input":{"b":2}},{"type":"tool_use","id":"t3","name":"h","input":{}}]`, `"tool_use","stop_sequence":null`},
		{`"tool_calls":[{"id":"t1","function":{"name":"f","arguments":"{\"a\""}}]`, `"length"`, messages.Asked{}, `[{"type":"tool_use","id":"t1","name":"f","input":{"INVALID_JSON":"{\"a\""}}]`, `"max_tokens","stop_sequence":null`},
		{`"tool_calls":[{"id":"t1","function":{"name":"f","arguments":"[1]"}}]`, `"stop"`, messages.Asked{}, `[{"type":"tool_use","id":"t1","name":"f","input":{"INVALID_JSON":"[1]"}}]`, `"tool_use","stop_sequence":null`},
	} {
		got := answered(t, chatAnswer(c.message, c.finish), c.asked)
		sameJSON(t, got, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":`+c.content+`,"stop_reason":`+c.ending+`,"usage":`+messageUsage+`}`)
	}
}

func TestResponseThatIsNone(t *testing.T) {
	for _, body := range []string{``, `{}`, `[]`, `{"object":"x"}`, `{"choices":[{"message":{"content":"a"}}]`, `{"choices":[]} x`} {
		if out, err := messages.Response(nil, []byte(body), &messages.Asked{}); err == nil {
			t.Errorf("%s became %s", body, out)
		}
	}
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(chatAnswer(`"content":"hi"`, `"stop"`)), true)
	f.Add([]byte(chatAnswer(`"reasoning":"a","refusal":"b","content":[{"text":"c"}],"tool_calls":[{"id":"\u0000","function":{"name":"f","arguments":"\""}}]`, `"stop","stop_reason":"x"`)), true)
	f.Fuzz(func(t *testing.T, body []byte, show bool) {
		out, err := messages.Response(nil, body, &messages.Asked{ShowThinking: show, Stops: []string{"x"}})
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatalf("%s\nbecame %s\n%v", body, out, err)
		}
		checkMessage(t, &m)
		was, _ := openai.BodyUsage(openai.Chat, body)
		if was.Completion != m.Usage.Output || was.Prompt != m.Usage.Input+m.Usage.Cached {
			t.Fatalf("%s\nused %+v, said %+v", body, was, m.Usage)
		}
	})
}

// message is an answer as clients read it.
type message struct {
	ID, Type, Role string
	Model          *string
	Content        []*block
	StopReason     *string `json:"stop_reason"`
	StopSequence   *string `json:"stop_sequence"`
	Usage          usage
}

type usage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
	Cached int `json:"cache_read_input_tokens"`
}

type block struct {
	Type, Text, Thinking, Signature, ID, Name string
	Input                                     json.RawMessage
	json                                      string // of input, in pieces
	stopped                                   bool
}

func checkMessage(t *testing.T, m *message) {
	t.Helper()
	if m.Type != "message" || m.Role != "assistant" || m.Model == nil || !strings.HasPrefix(m.ID, "msg_") || m.Content == nil || m.StopReason == nil {
		t.Fatalf("%+v is no message", m)
	}
	for _, b := range m.Content {
		switch {
		case b.Type == "text" && b.Text != "", b.Type == "thinking" && b.Thinking != "":
		case b.Type == "tool_use" && b.ID != "" && len(b.Input) > 0 && b.Input[0] == '{':
		default:
			t.Fatalf("%+v is no block", b)
		}
	}
}
