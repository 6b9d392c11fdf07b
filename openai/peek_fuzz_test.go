package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"colonnade/internal/ascii"
	"colonnade/openai"
)

func addBodies(f *testing.F) {
	for _, body := range []string{
		`{"model":"m"}`, `{"model":"a","model":"b"}`, `{"mod\u0065l":"a"}`, `{"model":"m","stream":true,"stream_options":{"include_usage":false,"x":1}}`,
		`{"stream":true,"stream_options":null,"model":"m"}`, `{"stream_options":{ },"stream":true,"model":"m"}`, `{"model":"\ud83d\ude00"}`,
		`{"model":"m","x":[1,-0.5e+3,true,null,{"a":"b\\\"c"}]}`, `{"model":"m","Stream":true}`, `{"model":"m","x":"\ud83d"}`,
		`{"model":"m","ſtream":1}`, `{"stream":true,"model":"m","stream_options":{"include_usage":null}}`, `{"model":"m","max_tokens":5} `,
		`{"model":"m","n":5,"best_of":1e3}`, `{"model":"m","N_predict":5}`, `{"model":"m","n_predict":7,"max_tokens":5,"text":1,"text":2,"Items":3}`, `{"model":"m","n":5,"lora_path":null,"chat_template_kwargs":{"chat_template":1}}`, `{"model":"m","Priority":1}`,
		`{"model":"m","image_url":"f\u0069le:"}`,
		`{"previous_response_id":null,"model":"m"}`, `{"model":"m","model\u0000":"n"}`, "{\"model\":\"m\xff\"}", `{"model":"m","x":` + strings.Repeat("[", 201) + strings.Repeat("]", 201) + `}`,
	} {
		f.Add([]byte(body))
	}
}

// A body that Peek accepts is accepted by encoding/json and read alike, also into a struct, for which letter case does
// not matter. A body that Peek refuses is refused by a plain reading of the rules, too.
func FuzzPeek(f *testing.F) {
	addBodies(f)
	f.Fuzz(checkPeek)
}

func checkPeek(t *testing.T, body []byte) {
	got, err := openai.Peek(openai.Chat, jsonType, body)
	want, ok := modelPeek(body)
	switch {
	case err == nil && !ok:
		t.Fatalf("accepted %q", body)
	case err != nil && ok:
		t.Fatalf("refused %q: %v", body, err)
	case err != nil:
		return
	case exported(got) != want:
		t.Fatalf("%q: %+v instead of %+v", body, exported(got), want)
	}
	var engine struct {
		Model         string
		Stream        bool
		StreamOptions *struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &engine); err != nil {
		t.Fatalf("an engine refuses %q: %v", body, err)
	}
	include := engine.StreamOptions != nil && engine.StreamOptions.IncludeUsage
	if engine.Model != got.Model || engine.Stream != got.Stream || include != got.IncludeUsage {
		t.Fatalf("%q: an engine sees %+v, not %+v", body, engine, got)
	}
}

// modelPeek is Peek for chat, written with encoding/json.
func modelPeek(body []byte) (seen, bool) {
	var want seen
	if !json.Valid(body) || !utf8.Valid(body) || nesting(body) > 200 {
		return want, false
	}
	found := map[string]json.RawMessage{}
	names := []string{"model", "stream", "stream_options", "stream_format", "max_tokens", "max_completion_tokens", "max_output_tokens",
		"previous_response_id", "conversation", "background", "n", "best_of", "n_cmpl", "prompt", "input", "inputs", "content", "documents", "texts",
		"chat_template_kwargs", "n_predict"}
	for _, f := range openai.AllEngineFields() {
		if f.Name != openai.FileURLs {
			names = append(names, f.Name)
		}
	}
	if !members(body, found, names) {
		return want, false
	}
	ok := plainCount(found["n"]) && plainCount(found["best_of"]) && plainCount(found["n_cmpl"]) && noNUL(found["chat_template_kwargs"])
	ok = ok && isString(found["model"], &want.Model) && isFlag(found["stream"], &want.Stream)
	ok = ok && want.Model != "" && len(want.Model) <= 256 && !strings.ContainsFunc(want.Model, func(r rune) bool { return r < ' ' || r == 0x7f })
	if strings.Contains(want.Model, "\ufffd") && loneSurrogate(found["model"]) {
		ok = false
	}
	if options := found["stream_options"]; options != nil && string(options) != "null" {
		inner := map[string]json.RawMessage{}
		ok = ok && members(options, inner, []string{"include_usage"}) && isFlag(inner["include_usage"], &want.IncludeUsage)
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"} {
		var n int
		if raw := found[name]; len(raw) > 0 && len(raw) <= 15 && json.Unmarshal(raw, &n) == nil {
			want.MaxTokens = max(want.MaxTokens, n)
		}
	}
	return want, ok
}

// members reads an object's members and reports whether each of the names occurs at most once and in no other spelling.
func members(object []byte, into map[string]json.RawMessage, names []string) bool {
	d := json.NewDecoder(bytes.NewReader(object))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return false
	}
	for d.More() {
		token, _ := d.Token()
		key := token.(string)
		if strings.Contains(key, "\x00") {
			return false
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return false
		}
		for _, name := range names {
			if !strings.EqualFold(key, name) {
				continue
			}
			if key != name || into[name] != nil {
				return false
			}
			into[name] = value
		}
	}
	return true
}

// plainCount reports whether a value is a whole number of at most 15 digits, or absent.
func plainCount(raw json.RawMessage) bool {
	return raw == nil || string(raw) == "null" || len(raw) <= 15 && len(bytes.Trim(raw, "0123456789")) == 0
}

// noNUL reports whether a value is no object with a NUL in a member's name.
func noNUL(raw json.RawMessage) bool {
	return len(raw) == 0 || raw[0] != '{' || members(raw, map[string]json.RawMessage{}, nil)
}

func isString(raw json.RawMessage, to *string) bool {
	return len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, to) == nil
}

func isFlag(raw json.RawMessage, to *bool) bool {
	return raw == nil || json.Unmarshal(raw, to) == nil
}

// loneSurrogate reports whether a string has an escape that is half of a surrogate pair.
func loneSurrogate(raw []byte) bool {
	var s string
	for _, mark := range []string{"\ufffd", `\ufffd`, `\uFFFD`, `\uFffd`} {
		raw = bytes.ReplaceAll(raw, []byte(mark), []byte("x"))
	}
	_ = json.Unmarshal(raw, &s)
	return strings.Contains(s, "\ufffd")
}

func nesting(body []byte) int {
	d := json.NewDecoder(bytes.NewReader(body))
	depth, deepest := 0, 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			return deepest
		}
		if err != nil {
			return 1 << 20
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// A spliced body decodes to the original, except for the edit.
func FuzzSplice(f *testing.F) {
	addBodies(f)
	f.Fuzz(checkSplice)
}

func checkSplice(t *testing.T, body []byte) {
	peeked, err := openai.Peek(openai.Chat, jsonType, body)
	if err != nil {
		return
	}
	if peeked.CanAskUsage() != (peeked.Stream && !peeked.IncludeUsage) {
		t.Fatalf("%q: can ask: %v", body, peeked.CanAskUsage())
	}
	const model = "meta-llama/Llama-3.1\"\\"
	for _, e := range []openai.Edit{{}, {Model: model}, {AskUsage: true}, {Model: model, AskUsage: true}, {MaxTokens: true}, {Model: model, AskUsage: true, MaxTokens: true}} {
		out := peeked.Splice([]byte("before"), body, e)
		if !bytes.HasPrefix(out, []byte("before")) {
			t.Fatalf("%q: what stood before is gone: %q", body, out)
		}
		out = out[len("before"):]
		if got, want := decode(t, out), edited(t, body, e, peeked.CanAskUsage()); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q with %+v: %q", body, e, out)
		}
		again, err := openai.Peek(openai.Chat, jsonType, out)
		if err != nil || again.IncludeUsage != (peeked.IncludeUsage || e.AskUsage && peeked.CanAskUsage()) {
			t.Fatalf("%q with %+v: %q: %+v, %v", body, e, out, again, err)
		}
		if e == (openai.Edit{}) && !bytes.Equal(out, body) {
			t.Fatalf("%q changed to %q", body, out)
		}
	}
}

func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return v
}

func edited(t *testing.T, body []byte, e openai.Edit, canAsk bool) map[string]any {
	v := decode(t, body)
	if e.Model != "" {
		v["model"] = e.Model
	}
	if e.AskUsage && canAsk {
		options, _ := v["stream_options"].(map[string]any)
		if options == nil {
			options = map[string]any{}
		}
		options["include_usage"] = true
		v["stream_options"] = options
	}
	most, _ := v["max_completion_tokens"].(json.Number)
	if _, isNumber := ascii.ParseUint([]byte(most)); e.MaxTokens && isNumber && v["max_tokens"] == nil {
		v["max_tokens"] = most
	}
	return v
}

func TestSplice(t *testing.T) {
	f := func(api openai.API, body string, e openai.Edit, want string) {
		t.Helper()
		peeked, err := openai.Peek(api, jsonType, []byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := string(peeked.Splice(nil, []byte(body), e)); got != want {
			t.Errorf("%s:\n%s instead of\n%s", body, got, want)
		}
		if changes := peeked.Changes([]byte(body), e); changes != (want != body) {
			t.Errorf("%s: %+v changes it: %v", body, e, changes)
		}
	}
	ask := openai.Edit{AskUsage: true}
	both := openai.Edit{Model: "x", AskUsage: true}
	most, all := openai.Edit{MaxTokens: true}, openai.Edit{Model: "x", AskUsage: true, MaxTokens: true}
	f(openai.Chat, `{"max_completion_tokens": 7 ,"model":"a"}`, most, `{"max_completion_tokens": 7 ,"model":"a","max_tokens":7}`)
	f(openai.Chat, `{"max_tokens": null ,"model":"a","max_completion_tokens":7,"stream":true}`, all,
		`{"max_tokens": 7 ,"model":"x","max_completion_tokens":7,"stream":true,"stream_options":{"include_usage":true}}`)
	f(openai.Chat, `{"stream_options":null,"model":"a","max_completion_tokens":7,"stream":true,"max_tokens":null}`, all,
		`{"stream_options":{"include_usage":true},"model":"x","max_completion_tokens":7,"stream":true,"max_tokens":7}`)
	f(openai.Chat, `{"model":"a","max_completion_tokens":7,"stream":true}`, all,
		`{"model":"x","max_completion_tokens":7,"stream":true,"stream_options":{"include_usage":true},"max_tokens":7}`)
	for _, body := range []string{
		`{"model":"a"}`, `{"model":"a","max_completion_tokens":null}`, `{"model":"a","max_completion_tokens":"7"}`, `{"model":"a","max_tokens":5,"max_completion_tokens":7}`,
		`{"model":"a","max_completion_tokens":7.5}`, `{"model":"a","max_tokens":"5","max_completion_tokens":7}`,
	} {
		f(openai.Chat, body, most, body)
	}
	f(openai.Completions, `{"model":"a","max_completion_tokens":7}`, most, `{"model":"a","max_completion_tokens":7}`)
	f(openai.Chat, `{ "model" : "a" , "z":1}`, openai.Edit{Model: "x"}, `{ "model" : "x" , "z":1}`)
	f(openai.Chat, `{"model":"a","stream":true}`, both, `{"model":"x","stream":true,"stream_options":{"include_usage":true}}`)
	f(openai.Completions, `{"stream":true,"model":"a" }`, both, `{"stream":true,"model":"x" ,"stream_options":{"include_usage":true}}`)
	f(openai.Chat, `{"stream_options":null,"model":"a","stream":true}`, both, `{"stream_options":{"include_usage":true},"model":"x","stream":true}`)
	f(openai.Chat, `{"stream_options":{ },"model":"a","stream":true}`, both, `{"stream_options":{"include_usage":true },"model":"x","stream":true}`)
	f(openai.Chat, `{"model":"a","stream":true,"stream_options":{"y":1}}`, both, `{"model":"x","stream":true,"stream_options":{"include_usage":true,"y":1}}`)
	f(openai.Chat, `{"model":"a","stream":true,"stream_options":{"y":1,"include_usage":null}}`, ask,
		`{"model":"a","stream":true,"stream_options":{"y":1,"include_usage":true}}`)
	f(openai.Chat, `{"model":"a"}`, openai.Edit{Model: "a"}, `{"model":"a"}`)
	f(openai.Chat, `{"model":"\u0061"}`, openai.Edit{Model: "a"}, `{"model":"a"}`)
	f(openai.Chat, `{"model":"abc"}`, openai.Edit{Model: "a"}, `{"model":"a"}`)
	// Nothing to edit.
	for _, same := range []string{`{"model":"a"}`, `{"model":"a","stream":false}`, `{"model":"a","stream_options":{}}`,
		`{"model":"a","stream":true,"stream_options":{"include_usage":true}}`} {
		f(openai.Chat, same, ask, same)
	}
	f(openai.Responses, `{"model":"a","stream":true}`, ask, `{"model":"a","stream":true}`)
	f(openai.Embeddings, `{"model":"a"}`, both, `{"model":"x"}`)
}
