package openai_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"colonnade/openai"
)

func promptTexts(contentType, body string) (texts []string, found openai.PromptText, ok bool) {
	found.Visit = func(text []byte) { texts = append(texts, string(text)) }
	ok = found.Read(contentType, []byte(body))
	return texts, found, ok
}

// The texts of a body are found decoded, parts of one content also together, and media are not.
func TestPromptText(t *testing.T) {
	for _, c := range []struct {
		body   string
		want   []string
		tokens bool
	}{
		{`{"model":"m","messages":[{"role":"user","content":"a\u0062\n\ud83d\ude00"}]}`, []string{"ab\n😀"}, false},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"for"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"text":"bidden","type":"text"}]}]}`,
			[]string{"for", "bidden", "forbidden", "for\nbidden"}, false},
		{`{"prompt":["a","b"],"suffix":"c"}`, []string{"a", "b", "c"}, false},
		{`{"prompt":[[1,2],[3]]}`, nil, true},
		{`{"input":[1,2]}`, nil, true},
		{`{"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}],"instructions":"y"}`, []string{"x", "y"}, false},
		{`{"stop":["s"],"temperature":1,"logit_bias":{"5":1},"tools":[{"type":"function","function":{"name":"f","description":"d"}}]}`, []string{"s", "f", "d"}, false},
		{`{"images":["AAAA"],"input_audio":{"data":"BBBB","format":"wav"},"file_data":"x"}`, nil, false},
		{`{"content":"data:;base64,bad words"}`, []string{"data:;base64,bad words"}, false},
		{`{"content":"data:;base64,bad"}`, []string{"data:;base64,bad"}, false},
		{`{"image_url":"data:image/png;base64,bad words"}`, []string{"data:image/png;base64,bad words"}, false},
		{`{"source":{"data":"b\u0061d","type":"text","media_type":"text/plain"}}`, []string{"bad"}, false},
		{`{"source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`, nil, false},
		{`{"type":"tool_use","name":"f","input":{"type":"a","data":"b","image":"c","more":{"role":"d"}}}`, []string{"f", "a", "b", "c", "d"}, false},
		{`{"function":{"arguments":{"model":"a"}},"model":"m"}`, []string{"a"}, false},
		{`{"type":"tool_use","name":"f","input":{"input":[1,2],"more":[{"tokens":[[3]]}]}}`, []string{"f"}, false},
		{`{"function":{"name":"f","arguments":{"tokens":[1]}},"prompt":[2]}`, []string{"f"}, true},
		{`{"prompt":"p","context":[1,2]}`, []string{"p"}, true},
	} {
		texts, found, ok := promptTexts(jsonType, c.body)
		if !ok || !slices.Equal(texts, c.want) || found.Tokens != c.tokens {
			t.Errorf("%s: %q, %v, %v, want %q", c.body, texts, found.Tokens, ok, c.want)
		}
	}
	form := "--X\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--X\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nwords\r\n" +
		"--X\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a\"\r\n\r\npixels\r\n--X--\r\n"
	if texts, _, ok := promptTexts("multipart/form-data; boundary=X", form); !ok || !slices.Equal(texts, []string{"words"}) {
		t.Errorf("form: %q, %v", texts, ok)
	}
}

// Every string of a body is found as encoding/json decodes it, unless its member holds media or a choice.
func FuzzPromptText(f *testing.F) {
	addBodies(f)
	f.Add([]byte(`{"model":"m","messages":[{"content":[{"text":"a"},{"text":"b"}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := openai.Peek(openai.Chat, jsonType, body); err != nil {
			return
		}
		texts, _, ok := promptTexts(jsonType, string(body))
		if !ok {
			t.Fatalf("%q was not read", body)
		}
		var v any
		if json.Unmarshal(body, &v) != nil {
			t.Fatalf("%q is no JSON", body)
		}
		for _, want := range stringsIn(v, "") {
			if !slices.Contains(texts, want) {
				t.Fatalf("%q: the text %q was not found in %q", body, want, texts)
			}
		}
	})
}

// stringsIn returns the strings in a value of encoding/json that are texts, whatever holds them. Of a member that occurs twice, it has the last.
func stringsIn(v any, name string) (all []string) {
	switch v := v.(type) {
	case string:
		chooses := []string{"model", "role", "type", "object", "format", "media_type", "detail", "response_format"}
		media := []string{"data", "file_data", "b64_json", "image", "images", "mask", "multimodal_data"}
		if !slices.Contains(chooses, name) && !slices.Contains(media, name) && !strings.HasPrefix(v, "data:") {
			all = append(all, v)
		}
	case []any:
		for _, element := range v {
			all = append(all, stringsIn(element, name)...)
		}
	case map[string]any:
		for key, member := range v {
			all = append(all, stringsIn(member, key)...)
		}
	}
	return all
}
