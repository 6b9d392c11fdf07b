package openai_test

import (
	"math/bits"
	"strings"
	"testing"

	"colonnade/openai"
)

// peekFields returns the engine fields of a body that is accepted.
func peekFields(t *testing.T, body string) openai.EngineFields {
	t.Helper()
	peeked, err := openai.Peek(openai.Chat, jsonType, []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return peeked.EngineFields
}

func only(field string) openai.EngineFields { return openai.EngineFieldsNamed([]string{field}) }

func TestPeekFindsEngineFields(t *testing.T) {
	if n := bits.OnesCount64(uint64(openai.EngineFieldsOf("openai"))); n != len(openai.AllEngineFields()) {
		t.Fatalf("%d fields have %d bits", len(openai.AllEngineFields()), n)
	}
	for _, f := range openai.AllEngineFields() {
		if f.Name == openai.FileURLs {
			continue
		}
		for _, value := range []string{"1", `"x"`, "[]", `{"a":1}`, "false"} {
			if got := peekFields(t, `{"model":"m","`+f.Name+`":`+value+`}`); got != only(f.Name) || got.First() != f.Name {
				t.Errorf("%s: %s: %x", f.Name, value, got)
			}
		}
		if got := peekFields(t, `{"model":"m","`+f.Name+`":null}`); got != 0 {
			t.Errorf("%s: null: %x", f.Name, got)
		}
		if got := peekFields(t, `{"model":"m","metadata":{"`+f.Name+`":1}}`); got != 0 {
			t.Errorf("%s in metadata: %x", f.Name, got)
		}
		form := formBody("model|m", f.Name+"|x")
		for _, name := range []string{f.Name, strings.ToUpper(f.Name), f.Name + "[]", f.Name + "[x]"} {
			peeked, err := openai.Peek(openai.Transcriptions, formType, []byte(strings.Replace(form, `"`+f.Name, `"`+name, 1)))
			if err != nil || peeked.EngineFields != only(f.Name) {
				t.Errorf("%s in a form: %x, %v", name, peeked.EngineFields, err)
			}
		}
	}
	if got := peekFields(t, `{"model":"m","lora\u005fpath":"a","\u0070riority":1}`); got != only("lora_path")|only("priority") {
		t.Errorf("escaped: %x", got)
	}
	if got := peekFields(t, `{"model":"m","messages":[],"temperature":1,"tools":[],"user":"u","cache_salt":"x","mm_processor_kwargs":{}}`); got != 0 {
		t.Errorf("found %q, which is none", got.First())
	}
}

// Some engines take a name in another letter case for the field, and of two the last.
func TestPeekRefusesAmbiguousEngineFields(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","Lora_path":"a"}`, `{"model":"m","KEEP_ALIVE":1}`, `{"model":"m","\u004bEEP_ALIVE":1}`, `{"model":"m","option\u017f":{}}`,
		`{"model":"m","lora_path":null,"lora_path":"a"}`, `{"model":"m","lora_path":null,"lora\u005fpath":"a"}`,
		`{"model":"m","lora_path\u0000":"a"}`, `{"model":"m","chat_template_kwargs":{"chat_template\u0000":"a"}}`,
		`{"model":"m","chat_template_kwargs":{},"chat_template_kwargs":{"chat_template":"a"}}`,
	} {
		if _, err := openai.Peek(openai.Chat, jsonType, []byte(body)); err == nil {
			t.Errorf("accepted %s", body)
		}
	}
}

// vLLM takes a chat template also from the variables of the template.
func TestPeekFindsNestedChatTemplate(t *testing.T) {
	for _, body := range []string{`{"chat_template":"{{ 1 }}"}`, `{"enable_thinking":true,"chat\u005ftemplate":"x"}`} {
		if got := peekFields(t, `{"model":"m","chat_template_kwargs":`+body+`}`); got != only("chat_template") {
			t.Errorf("%s: %x", body, got)
		}
	}
	for _, body := range []string{`{"enable_thinking":false,"chat_template":null}`, "{}", "null", `{"x":{"chat_template":1}}`, "[]"} {
		if got := peekFields(t, `{"model":"m","chat_template_kwargs":`+body+`}`); got != 0 {
			t.Errorf("%s: %q", body, got.First())
		}
	}
}

func TestPeekFindsFileURLs(t *testing.T) {
	content := func(part string) string { return `{"model":"m","messages":[{"content":[` + part + `]}]}` }
	for _, url := range []string{"file:///etc/passwd", "FILE:/x", "file://localhost/x", `\u0066ile:///x`, `file\u003a//x`, ` file:///x`, `\t\u001ffile:x`,
		`fi\nle:///x`, `fi\u0009le:x`, `f\u0069le:`} {
		for _, part := range []string{`{"type":"image_url","image_url":{"detail":"low","url":"%"}}`, `{"image_url":"%"}`, `{"video_url":{"url":"%"}}`,
			`{"audio_url":{"u\u0072l":"%"}}`, `{"image":"%"}`, `{"image_url":["a","%"]}`, `{"input_audio":{"url" : "%" }}`} {
			if got := peekFields(t, content(strings.Replace(part, "%", url, 1))); got != only(openai.FileURLs) {
				t.Errorf("%s in %s: %x", url, part, got)
			}
		}
		if got := peekFields(t, `{"model":"m","image_url":"`+url+`"}`); got != only(openai.FileURLs) {
			t.Errorf("%s at the top: %x", url, got)
		}
	}
	for _, part := range []string{
		`{"type":"text","text":"file:///etc/passwd"}`, `{"image_url":{"url":"https://x/file:"}}`, `{"image_url":{"url":"data:image/png;base64,AA"}}`,
		`{"image_url":{"url":"filex:"}}`, `{"image_url":{"url":"file"}}`, `{"image_url":{"url":"\\file:"}}`, `{"image_url":{"url":""}}`,
		`{"image_url":{"url":"\ud83d\ude00file:"}}`, `{"url":{},"text":"file:x"}`,
	} {
		if got := peekFields(t, content(part)); got != 0 {
			t.Errorf("%s: %q", part, got.First())
		}
	}
}

// SGLang opens a string that ends like the name of an image as a path, and any other if there is a file of that name.
func TestPeekFindsFilePaths(t *testing.T) {
	content := func(part string) string { return `{"model":"m","messages":[{"content":[` + part + `]}]}` }
	parts := []string{`{"image_url":{"url":"%"}}`, `{"image_url":"%"}`, `{"video_url":{"url":"%"}}`, `{"audio_url":{"\u0075r\u006c":"%"}}`,
		`{"image":["a","%"]}`, `{"\u0069mage_url":"%"}`}
	for _, path := range []string{"/data/photo.PNG", "/etc/hostname", `\/data\/clip`, "../x.jpg", "photo.webp", " /x.gif", "/9j/../x", "data/x.png", "data/a clip",
		"concat:/data/clip", "ftp://x/y", `\u002fetc/hostname`, "~/x", "HTTPS/../x.png"} {
		for _, part := range parts {
			if got := peekFields(t, content(strings.Replace(part, "%", path, 1))); got != only(openai.FileURLs) {
				t.Errorf("%s in %s: %x", path, part, got)
			}
		}
		if got := peekFields(t, content(`{"type":"text","text":"`+path+`"},{"page_url":"`+path+`"},{"urls":"`+path+`"}`)); got != 0 {
			t.Errorf("%s in text: %q", path, got.First())
		}
	}
	for _, url := range []string{"https://x/y.png", "HTTP://x/a.gif", "data:image/png;base64,/9j/A.png", "gs://bucket/x.png", "s3://bucket/x.png", "", "auto",
		"/9j/4AAQSkZJRg==", `\/9j\/4AAQ\nSkZJRg==`, "iVBORw0KGgo/+A==", "iVBOR/png", "low.res", `C\\x`, strings.Repeat("/./x", 10<<10)} {
		for _, part := range parts {
			if got := peekFields(t, content(strings.Replace(part, "%", url, 1))); got != 0 {
				t.Errorf("%.40s in %s: %q", url, part, got.First())
			}
		}
	}
}

func TestPeekFindsFilesInForms(t *testing.T) {
	f := func(want openai.EngineFields, fields ...string) {
		t.Helper()
		peeked, err := openai.Peek(openai.Images, formType, []byte(formBody(append(fields, "model|m")...)))
		if err != nil || peeked.EngineFields != want {
			t.Errorf("%q: %x, %v", fields, peeked.EngineFields, err)
		}
	}
	for _, name := range []string{"url", "image", "image[]", "URL", "url[0]"} {
		f(only(openai.FileURLs), name+"|file:///data/x.png")
		f(only(openai.FileURLs), name+"|/data/x.png")
		f(0, name+"|https://x/y.png")
	}
	f(only(openai.FileURLs), "mask_url| FILE:///x")
	f(0, "prompt|file:///data/x.png", "url|fi\\", `url|\`)
}

func TestEngineFieldsOf(t *testing.T) {
	f := func(engine string, want ...string) {
		t.Helper()
		got := openai.EngineFieldsOf(engine)
		for _, field := range []string{"lora_path", "lora", "adapter_id", "kv_transfer_params", "priority", "options", "nvext", openai.FileURLs} {
			in := got&only(field) != 0
			wanted := false
			for _, w := range want {
				wanted = wanted || w == field
			}
			if in != wanted {
				t.Errorf("%s reads %s: %v", engine, field, in)
			}
		}
	}
	f("vllm", "kv_transfer_params", "priority", openai.FileURLs)
	f("sglang", "lora_path", "priority", openai.FileURLs)
	f("llamacpp", "lora", openai.FileURLs)
	f("tgi", "adapter_id")
	f("tei")
	f("ollama", "options")
	for _, any := range []string{"openai", "triton", "", "new"} {
		f(any, "lora_path", "lora", "adapter_id", "kv_transfer_params", "priority", "options", "nvext", openai.FileURLs)
	}
	if got := openai.EngineFieldsNamed([]string{"x", ""}); got != 0 {
		t.Errorf("unknown names are %x", got)
	}
}
