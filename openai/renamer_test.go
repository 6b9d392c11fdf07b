package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"colonnade/openai"
)

// rename returns an answer with another name for the model, which gets it in pieces of the sizes that size returns.
func rename(name string, f openai.Framing, answer string, size func() int) string {
	r := openai.NewModelRenamer(name, f)
	var out []byte
	for len(answer) > 0 {
		n := min(max(size(), 1), len(answer))
		out = r.Append(out, []byte(answer[:n]))
		answer = answer[n:]
	}
	return string(out)
}

// The name of the model is replaced where clients look for it, in answers of all APIs and however they come, and nowhere else.
func TestModelRenamer(t *testing.T) {
	f := func(framing openai.Framing, answer string) {
		t.Helper()
		plain := strings.ReplaceAll(answer, "ENGINE", `org/Engine-8B`)
		for _, name := range []string{"a", "org/Engine-8B", strings.Repeat("long", 40), `quo"ted`, "back\\slash", "über <&>"} {
			text, _ := json.Marshal(name)
			want := strings.ReplaceAll(answer, `"ENGINE"`, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text)))
			for _, size := range []int{1, 2, 3, 7, 50, len(answer)} {
				if got := rename(name, framing, plain, func() int { return size }); got != want {
					t.Errorf("%q in pieces of %d:\n got %q\nwant %q", name, size, got, want)
				}
			}
		}
	}
	for _, body := range []string{
		`{"model":"ENGINE"}`, `{ "id" : 1 ,` + "\n" + `"model" : "ENGINE" , "choices":[{"message":{"model":"x","content":"\"model\":\"y\""}}]}`,
		`{"object":"list","data":[{"embedding":[0.1,-2e3],"model":"x"}],"model":"ENGINE","usage":{"model":"x"}}`,
		`{"type":"message","role":"assistant","content":[{"type":"text","text":"{\"model\":"}],"model":"ENGINE","stop_reason":null}`,
		`{"type":"message_start","message":{"usage":{"a":{"b":1}},"content":[],"model":"ENGINE","id":"m"}}`,
		`{"type":"response.created","response":{"id":"r","output":[{"model":"x"}],"model":"ENGINE"}}`,
		`{"message":{"role":"assistant","content":"response"},"model":"ENGINE","done":false}`,
		`{"response":"model","model":"ENGINE"}`, `{"a":"model","model":"ENGINE"}`, `{"a":["model","model"],"b":{"model":"x"},"model":"ENGINE"}`,
		`{"model":null,"response":{"model":"ENGINE"}}`, `{"model":{"model":"x"},"message":[{"model":"x"}],"response":{"message":{"model":"x"}}}`,
		`{"models":"x","mode":"x","Model":"x","MODEL":"x","message_model":"x"}`, `{"model":1,"x":"model"}`, `{"mod\u0065l":"x"}`, `{"":"model","model\\":"x"}`,
		`[{"model":"x"}]`, `"model"`, `model: "x"`, `{"model"`, `{"model":`, `}{"model":"x"}`, ``, "\x00\xff", `{"a":"` + strings.Repeat(`\\\"model\":`, 50) + `","model":"ENGINE"}`,
	} {
		f(openai.NoFraming, body)
		if !strings.Contains(body, "\n") {
			f(openai.JSONLines, body+"\n"+body+"\r\n"+`{"model":"ENGINE"}`)
			f(openai.EventStream, "event: model\ndata: "+body+"\n\ndata:"+body+"\r\n\r\n: {\"model\":\"x\"}\rid: \"model\":\"x\"\rdata: {\"model\":\"ENGINE\"}\r\r")
		}
	}
	f(openai.EventStream, "data: {\"a\":1,\ndata: \"response\": {\nevent: \"}\ndata: \"model\" :\n: \"\ndata:\"ENGINE\"\ndata: }}\n\ndata: [DONE]\n\n")
	f(openai.EventStream, "\ufeffdata: {\"model\":\"ENGINE\"}\n\n\ufeffdata: {\"model\":\"x\"}\n\n")
	f(openai.EventStream, "dat\ufeffa: {\"model\":\"x\"}\n\ndata {\"model\":\"x\"}\ndatax: {\"model\":\"x\"}\n\ndata: {\"model\":\"ENGINE\"}\n")
	f(openai.EventStream, "\ufeffdata: {\"a\":\"x\ndata: \",\"model\":\"x\"}\n\ndata: {\"model\":\"ENGINE\"}\n\n") // a string over two lines is no JSON
	f(openai.JSONLines, "{\"a\":\"x\n{\"model\":\"ENGINE\"}\n")
}

// A name that the engine begins and does not end takes nothing of what follows.
func TestModelRenamerOfACutName(t *testing.T) {
	all := func() int { return 1 << 20 }
	for answer, want := range map[string]string{
		"data: {\"model\":\"eng\n\ndata: {\"model\":\"engine\"}\n\ndata: [DONE]\n\n": "data: {\"model\":\"m\"\n\ndata: {\"model\":\"m\"}\n\ndata: [DONE]\n\n",
		"data: {\"model\":\"eng\\\r\ndata: x\"}\r\n\r\n":                             "data: {\"model\":\"m\"\r\ndata: x\"}\r\n\r\n",
	} {
		if got := rename("m", openai.EventStream, answer, all); got != want {
			t.Errorf("%q: got %q, want %q", answer, got, want)
		}
	}
}

// naiveRename renames the model of a JSON value by a tokenizer.
func naiveRename(name, body string) string {
	type level struct {
		object, key, has bool // has: its member model counts
		name             string
	}
	d := json.NewDecoder(strings.NewReader(body))
	var levels []level
	for {
		before := d.InputOffset()
		token, err := d.Token()
		if err != nil {
			return body
		}
		after := d.InputOffset()
		top := len(levels) - 1
		isKey := top >= 0 && levels[top].object && levels[top].key
		if isKey && token != json.Delim('}') {
			levels[top].key = false
			levels[top].name = strings.Trim(body[before:after], " \t\r\n,")
			continue
		}
		if top >= 0 {
			levels[top].key = true
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			parent := top == 0 && (levels[0].name == `"message"` || levels[0].name == `"response"`)
			levels = append(levels, level{object: token == json.Delim('{'), key: true, has: token == json.Delim('{') && (top < 0 || parent && levels[0].has)})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:top]
		default:
			if _, ok := token.(string); ok && top >= 0 && levels[top].has && levels[top].name == `"model"` {
				text := strings.TrimLeft(body[before:after], " \t\r\n:")
				return body[:int(after)-len(text)] + name + body[after:]
			}
		}
	}
}

// In any pieces the answer is the same, and of JSON it is that of a tokenizer.
func FuzzModelRenamer(f *testing.F) {
	for _, seed := range []string{
		`{"model":"a","choices":[]}`, `{"response":{"model":"a","x":{"model":"b"}},"model":"c"}`, "{\n \"message\" : {\"model\"\t:\r\n\"a\\\"b\"}}", `[{"model":"a"}]`,
		`{"model":null,"message":{"model":[]},"response":{"model":"x"}}`, "data: {\"model\":\"a\"}\r\rdata:[DONE]\n\n", "\ufeffdata:{\"model\":\"a\n\n\"", `{"model":"\\"}`, `}`, `{"a":"b","a"}`,
	} {
		for framing := range uint8(3) {
			f.Add(seed, uint64(framing), framing)
		}
	}
	const name = "the/requested-name"
	f.Fuzz(func(t *testing.T, text string, seed uint64, framing uint8) {
		how := openai.Framing(framing % 3)
		r := rand.New(rand.NewPCG(seed, 1))
		whole := rename(name, how, text, func() int { return len(text) })
		for range 3 {
			if got := rename(name, how, text, func() int { return r.IntN(9) }); got != whole {
				t.Fatalf("in pieces %q\nas a whole %q", got, whole)
			}
		}
		if !json.Valid([]byte(text)) {
			return
		}
		want := naiveRename(`"`+name+`"`, text)
		switch how {
		case openai.EventStream:
			lines := strings.NewReplacer("\r", " ", "\n", "\ndata:")
			text, want = "event: \"a\ndata: "+lines.Replace(text)+"\n\ndata: {\"model\":\"x\"}\n\n", "event: \"a\ndata: "+lines.Replace(want)+"\n\ndata: {\"model\":\""+name+"\"}\n\n"
		case openai.JSONLines:
			lines := strings.NewReplacer("\r", " ", "\n", " ")
			text, want = lines.Replace(text)+"\n{\"model\":\"x\"}", lines.Replace(want)+"\n{\"model\":\""+name+"\"}"
		}
		if got := rename(name, how, text, func() int { return r.IntN(50) }); got != want {
			t.Fatalf("%q:\n got %q\nwant %q", text, got, want)
		}
	})
}

// BenchmarkModelRenamer is what a new name costs of a chunk, and of a body with a long vector before the name.
func BenchmarkModelRenamer(b *testing.B) {
	chunk := []byte(`data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"meta-llama/Llama-3.1-8B-Instruct",` +
		`"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	body := fmt.Appendf(nil, `{"object":"list","data":[{"embedding":[%s1]}],"model":"e"}`, bytes.Repeat([]byte("0.123456789,"), 4096))
	for name, c := range map[string]struct {
		framing openai.Framing
		piece   []byte
	}{"chunk": {openai.EventStream, chunk}, "vector": {openai.NoFraming, body}} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			b.SetBytes(int64(len(c.piece)))
			r := openai.NewModelRenamer("default", c.framing)
			for b.Loop() {
				if c.framing == openai.NoFraming {
					r = openai.NewModelRenamer("default", c.framing)
				}
				buf = r.Append(buf[:0], c.piece)
			}
		})
	}
}
