package openai_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"colonnade/openai"
)

const jsonType = "application/json"

// seen is the exported part of a Body.
type seen struct {
	Model                string
	Stream, IncludeUsage bool
	MaxTokens            int
}

func exported(b openai.Body) seen { return seen{b.Model, b.Stream, b.IncludeUsage, b.MaxTokens} }

func TestPeek(t *testing.T) {
	f := func(api openai.API, body string, want seen) {
		t.Helper()
		got, err := openai.Peek(api, jsonType, []byte(body))
		if err != nil || exported(got) != want {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	f(openai.Chat, `{"model":"m"}`, seen{Model: "m"})
	f(openai.Chat, " \t\r\n{ \"messages\" : [ ] ,\n\"model\"\t:\r\"m\" } \n", seen{Model: "m"})
	f(openai.Chat, `{"model":"meta-llama\/Llama","stream":true}`, seen{Model: "meta-llama/Llama", Stream: true})
	f(openai.Chat, `{"mod\u0065l":"\u006d","stre\u0061m":true}`, seen{Model: "m", Stream: true})
	f(openai.Chat, `{"model":"m","stream":false}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"m","stream":null}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, seen{"m", true, true, 0})
	f(openai.Chat, `{"model":"m","stream":true,"stream_options":{"x":[{}],"include_usage":false}}`, seen{Model: "m", Stream: true})
	f(openai.Chat, `{"model":"m","stream":true,"stream_options":null}`, seen{Model: "m", Stream: true})
	f(openai.Chat, `{"max_tokens":7,"model":"m"}`, seen{Model: "m", MaxTokens: 7})
	f(openai.Chat, `{"max_completion_tokens":8,"max_tokens":7,"model":"m"}`, seen{Model: "m", MaxTokens: 8})
	f(openai.Chat, `{"max_tokens":7,"max_completion_tokens":8,"model":"m"}`, seen{Model: "m", MaxTokens: 8})
	f(openai.Responses, `{"max_output_tokens":9,"model":"m"}`, seen{Model: "m", MaxTokens: 9})
	f(openai.Chat, `{"model":"m","max_tokens":null}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"m","max_tokens":-1}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"m","max_tokens":1e3}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"m","max_tokens":99999999999999999999}`, seen{Model: "m"})
	f(openai.Responses, `{"model":"m","previous_response_id":null,"conversation":null,"background":false}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"m","previous_response_id":"x","background":true}`, seen{Model: "m"})
	f(openai.Speech, `{"model":"m","stream_format":"sse"}`, seen{Model: "m", Stream: true})
	f(openai.Speech, `{"model":"m","stream_format":"audio"}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"grüße 日本 😀"}`, seen{Model: "grüße 日本 😀"})
	f(openai.Chat, `{"model":"\ud83d\ude00"}`, seen{Model: "😀"})
	f(openai.Chat, `{"model":"m","x":"\ud83d","models":1,"model_":2,"metadata":{"model":"x","Model":"y"}}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"m","x":[-0,0.5,1E+2,1e-2,true,false,null,"",{},[],[[]],{"a":{}}]}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"m","x":`+strings.Repeat("[", 199)+strings.Repeat("]", 199)+`}`, seen{Model: "m"})
	f(openai.Chat, `{"model":"`+strings.Repeat("m", 256)+`"}`, seen{Model: strings.Repeat("m", 256)})
}

func TestPeekRefuses(t *testing.T) {
	f := func(body string, number int, param string) {
		t.Helper()
		got, err := openai.Peek(openai.Responses, jsonType, []byte(body))
		if err == nil || err.Number != number || err.Param != param {
			t.Errorf("%.80q: %+v, %v", body, got, err)
		}
	}
	// Syntax.
	for _, body := range []string{``, ` `, `null`, `[]`, `"model"`, `1`, `{`, `}`, `{"model"`, `{"model":"m"`, `{"model":"m",}`,
		`{"model":"m"}}`, `{"model":"m"} {}`, `{"model":"m"}x`, "{\"model\":\"m\"}\x00", `{,"model":"m"}`, `{"model":"m","x"}`,
		`{"model":"m" "x":1}`, `{"model":"m";"x":1}`, `{'model':'m'}`, `{model:"m"}`, `{"model":"m","x":01}`, `{"model":"m","x":+1}`,
		`{"model":"m","x":.5}`, `{"model":"m","x":1.}`, `{"model":"m","x":1e}`, `{"model":"m","x":-}`, `{"model":"m","x":NaN}`,
		`{"model":"m","x":tru}`, `{"model":"m","x":nulll}`, `{"model":"m","x":[1,]}`, `{"model":"m","x":[}`, `{"model":"m","x":{]}`,
		`{"model":"m","x":[1}`, `{"model":"m","x":"\x"}`, `{"model":"m","x":"\u12"}`, `{"model":"m","x":"\u12g4"}`, `{"model":"m","x":"`,
		`{"model":"m","x":"\`, `{"model":"m","x":"\"}`, "{\"model\":\"m\",\"x\":\"\n\"}", "{\"model\":\"m\",\"x\":\"aaaaaaaaa\x00aaaaaaaa\"}",
		"{\"model\":\"m\",\"x\":\"\x1f\"}", "{\"model\":\"m\",\"x\":\"\xff\"}", "{\"model\":\"m\",\"x\":\"aaaaaaaaaaaa\xc3\"}",
		"{\"model\":\"m\",\"x\":\"\xed\xa0\x80\"}", "{\"model\":\"m\",\"x\":\"\xc0\x80\"}", "{\"mod\xffel\":1,\"model\":\"m\"}",
		"\ufeff{\"model\":\"m\"}", "{\"model\":\"m\"}\u00a0", "{\"model\":\"m\",\x0c\"x\":1}", "{\"model\":\"m\",\"x\":1/**/}",
		`{"model":"m","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		`{"model":"m","x":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + `}`,
		`{"model":"m","model\u0000":"n"}`, `{"model\u0000x":"n","model":"m"}`, `{"model":"m","x\u0000":1}`,
		`{"model":"m","model\u0000` + strings.Repeat("x", 700) + `":"n"}`,
		`{"x":` + strings.Repeat("[", 100_000), strings.Repeat("[", 100_000), strings.Repeat(`{"x":`, 100_000),
	} {
		f(body, 40001, "")
	}
	for body, want := range map[string]string{
		"": "the body is empty: send a JSON object", " \n": "the body is empty: send a JSON object",
		"[]": "the body must be a JSON object", " null ": "the body must be a JSON object", `"a"`: "the body must be a JSON object",
		"nul": "the body is not valid JSON: see byte 0", "[] x": "the body is not valid JSON: see byte 3", "{": "the body is not valid JSON: it ends early, at byte 1",
		`{"model":`: "the body is not valid JSON: it ends early, at byte 9", `{"model":"gp`: "the body is not valid JSON: it ends early, at byte 12",
		`{"model":"m","stream":tr`: "the body is not valid JSON: it ends early, at byte 24", `{"model":"m","messages":[{"role":"us`: "the body is not valid JSON: it ends early, at byte 36",
		`{"model":"m"`: "the body is not valid JSON: it ends early, at byte 12", `{"model":5}`: "\"model\" must be a string", `{"model":x`: "the body is not valid JSON: it ends early, at byte 10",
	} {
		if _, err := openai.Peek(openai.Chat, jsonType, []byte(body)); err == nil || err.Message != want {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
	// The model.
	f(`{}`, 40001, "model")
	f(`{"x":1}`, 40001, "model")
	f(`{"model":""}`, 40001, "model")
	f(`{"model":`, 40001, "model")
	for _, value := range []string{"null", "1", "true", "{}", "[]", `["m"]`} {
		f(`{"model":`+value+`}`, 40001, "model")
	}
	f(`{"model":"a\u0000b"}`, 40001, "model")
	f(`{"model":"a\nb"}`, 40001, "model")
	f(`{"model":"a\u007fb"}`, 40001, "model")
	f(`{"model":"\ud83d"}`, 40001, "model")
	f(`{"model":"\ude00\ud83d"}`, 40001, "model")
	f(`{"model":"`+strings.Repeat("m", 257)+`"}`, 40002, "model")
	// Two models.
	f(`{"model":"a","model":"b"}`, 40001, "model")
	f(`{"model":"a","model":"a"}`, 40001, "model")
	f(`{"model":"a","mod\u0065l":"b"}`, 40001, "model")
	f(`{"\u006d\u006F\u0064\u0065\u006c":"a","x":{},"model":"b"}`, 40001, "model")
	f(`{"model":"a","Model":"b"}`, 40001, "")
	f(`{"MODEL":"a"}`, 40001, "")
	f(`{"model":"a","mode\u004C":"b"}`, 40001, "")
	f(`{"model":"a","ſtream":true}`, 40001, "")
	f(`{"model":"a","\u017ftream":true}`, 40001, "")
	f(`{"model":"a","MAX_TOKENſ":1}`, 40001, "")
	f(`{"model":"a","bac\u212aground":true}`, 40001, "")
	f(`{"model":"a","stream":true,"stream":false}`, 40001, "stream")
	f(`{"model":"a","stream_options":{},"stream_options":{}}`, 40001, "stream_options")
	f(`{"model":"a","stream_options":{"include_usage":true,"include_usage":false}}`, 40001, "stream_options")
	f(`{"model":"a","stream_options":{"include_usage":true,"include_us\u0061ge":false}}`, 40001, "stream_options")
	f(`{"model":"a","stream_options":{"Include_usage":true}}`, 40001, "stream_options")
	f(`{"model":"a","stream_options":{"include_usage\u0000":true}}`, 40001, "")
	f(`{"model":"a","stream_options":{"include_uſage":true}}`, 40001, "stream_options")
	// Values that some engines take for true.
	for _, value := range []string{`"true"`, "1", "0", `""`, "[]", "{}", `"on"`} {
		f(`{"model":"a","stream":`+value+`}`, 40001, "stream")
		f(`{"model":"a","stream_options":{"include_usage":`+value+`}}`, 40001, "stream_options")
	}
	f(`{"model":"a","stream_options":true}`, 40001, "stream_options")
	f(`{"model":"a","stream_options":[]}`, 40001, "stream_options")
	// State that is not kept.
	f(`{"model":"a","previous_response_id":"resp_1"}`, 40004, "previous_response_id")
	f(`{"model":"a","previous_response_id":""}`, 40004, "previous_response_id")
	f(`{"model":"a","previous_response\u005fid":"resp_1"}`, 40004, "previous_response_id")
	f(`{"model":"a","conversation":{"id":"c"}}`, 40004, "conversation")
	f(`{"model":"a","conversation":"c"}`, 40004, "conversation")
	f(`{"model":"a","background":true}`, 40004, "background")
	f(`{"model":"a","background":"true"}`, 40004, "background")
	f(`{"model":"a","background":1}`, 40004, "background")
}

func TestPeekContentType(t *testing.T) {
	body := []byte(`{"model":"m"}`)
	for _, accepted := range []string{"", "application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-8",
		`application/json; charset="utf-8"`, "application/json; profile=x", "application/vnd.api+json", " application/json "} {
		if _, err := openai.Peek(openai.Chat, accepted, body); err != nil {
			t.Errorf("%q: %v", accepted, err)
		}
	}
	for _, refused := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json; charset=utf-16",
		"application/json; charset=utf-8; charset=utf-7", "application/json; charset*=utf-7''x", "application/json, text/plain", "+json",
		"application/+json", "multipart/form-data; boundary=x", "json", ";"} {
		if _, err := openai.Peek(openai.Chat, refused, body); err == nil || err.Number != 40001 {
			t.Errorf("%q: %v", refused, err)
		}
	}
}

func TestPeekSaysNothingOfPrompts(t *testing.T) {
	for _, body := range []string{`{"messages":"canary"`, `{"messages":"canary\q"}`, "{\"messages\":\"canary\x00\"}", `{"model":"m","messages":canary}`,
		`{"canary":1}`, `{"model":{"canary":1}}`} {
		if _, err := openai.Peek(openai.Chat, jsonType, []byte(body)); err == nil || strings.Contains(err.Message, "canary") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestPeekAllocatesTheModelOnly(t *testing.T) {
	body := chatBody(4 << 10)
	route, _ := openai.ParseRoute([]byte("POST"), []byte("/v1/chat/completions"))
	described := new(openai.Body)
	n := testing.AllocsPerRun(100, func() {
		if err := described.Peek(route, jsonType, body); err != nil {
			t.Error(err)
		}
	})
	if n != 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestPeekFindsTheOddByteAnywhere(t *testing.T) {
	for size := range 80 {
		for at := range size {
			for _, odd := range []byte{0, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', 0x7f, 0x80, 0xff} {
				text := []byte(strings.Repeat("a", size))
				text[at] = odd
				body := []byte(`{"model":"m","user":"` + string(text) + `"}`)
				if _, err := openai.Peek(openai.Chat, jsonType, body); (err == nil) != (json.Valid(body) && utf8.Valid(body)) {
					t.Fatalf("%q: %v", body, err)
				}
			}
		}
	}
}
