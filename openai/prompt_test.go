package openai_test

import (
	"bytes"
	"strings"
	"testing"

	"colonnade/openai"
)

func promptOf(body string) string {
	p := openai.ReadPrompt([]byte(body))
	var text bytes.Buffer
	p.Text(func(piece []byte) bool { text.Write(piece); return true })
	return text.String()
}

func TestReadPrompt(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","messages":[{"role":"user","content":"a"}, {"role":"assistant","content":"b"}],"stream":true}`: `{"role":"user","content":"a"}{"role":"assistant","content":"b"}`,
		`{"messages":[{"role":"user"}],"tools":[1],"system":"s"}`:                                                    `[1]"s"{"role":"user"}`,
		`{"prompt":"once upon a time"}`:               `once upon a time`,
		`{"prompt":["a","b"],"max_tokens":1}`:         `"a""b"`,
		`{"instructions":"be brief","input":"hello"}`: `"be brief"hello`,
		`{"input":"x","messages":[{"role":"user"}]}`:  `{"role":"user"}`,
		`{"other":1}`: `{"other":1}`,
		`no JSON`:     `no JSON`,
		`{"messages":[{"role":"user","content":"cut`:        `{"messages":[{"role":"user","content":"cut`,
		`{"model":"m","messages":"not a list", "prompt":1}`: `not a list`,
	} {
		if got := promptOf(body); got != want {
			t.Errorf("%s: prompt %s, want %s", body, got, want)
		}
	}
}

// The prompt of a conversation's next turn goes on where that of the last one ends, whatever stands around the messages.
func TestPromptGrowsByTurns(t *testing.T) {
	first := promptOf(`{"model":"m","temperature":0.1,"messages":[{"role":"system","content":"s"},{"role":"user","content":"one"}]}`)
	second := promptOf(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"two"}],"stream":true}`)
	if !strings.HasPrefix(second, first) || len(second) == len(first) {
		t.Errorf("%s does not begin with %s", second, first)
	}
}

// Where clients mark what caches may keep, and whether they write a content as a string or as parts, makes no difference.
func TestPromptsThatReadAlike(t *testing.T) {
	f := func(one, other string) {
		t.Helper()
		if a, b := promptOf(one), promptOf(other); a != b {
			t.Errorf("%s and %s read as %s and %s", one, other, a, b)
		}
	}
	plain := `{"messages":[{"role":"user","content":"a\"b"},{"role":"assistant","content":"c"}]}`
	f(plain, `{"messages":[{"role":"user","content":[{"type":"text","text":"a\"b","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"c"}]}`)
	f(plain, `{"messages":[ {"role": "user", "cache_control": {}, "content": [{"text":"a"},{"text":"\"b", "type":"text"}]}, {"cache_control":1, "role":"assistant","content":"c"}]}`)
	f(`{"system":"s","messages":[{"content":"a"}]}`, `{"system":[{"type":"text","text":"s","cache_control":{}}],"messages":[{"content":[{"type":"input_text","text":"a"}]}]}`)
	f(`{"tools":[{"name":"t"}],"prompt":""}`, `{"tools":[{"name":"t","cache_control":{}}],"prompt":""}`)
	f(`{"messages":[{"content":[{"type":"tool_result","content":"r"}]}]}`, `{"messages":[{"content":[{"type":"tool_result","cache_control":{},"content":[{"type":"text","text":"r"}]}]}]}`)
	for _, other := range []string{`{"messages":[{"content":[{"type":"image_url","text":"a"}]}]}`, `{"messages":[{"content":["a"]}]}`, `{"messages":[{"content":[{"text":1}]}]}`} {
		if promptOf(other) == promptOf(`{"messages":[{"content":"a"}]}`) {
			t.Errorf("%s reads as the text", other)
		}
	}
}

// Of a long body only the beginning is read, and it is that of the next turn too.
func TestPromptOfALongBody(t *testing.T) {
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("long ", openai.MaxPrompt)
	first := promptOf(long + `"}]}`)
	if n := len(first); n > openai.MaxPrompt || n < openai.MaxPrompt-100 {
		t.Errorf("a prompt of %d bytes is read", n)
	}
	if second := promptOf(long + `"},{"role":"user","content":"more"}],"tools":[]}`); second != first {
		t.Error("the next turn does not begin with the first")
	}
	messages := strings.Repeat(`{"role":"user","content":"`+strings.Repeat("x", 1000)+`"},`, 2000)
	p, n := openai.ReadPrompt([]byte(`{"messages":[`+messages+`{}]}`)), 0
	p.Beginning(1, func(piece []byte) { n += len(piece) })
	if n > 1100 {
		t.Errorf("the first message of many has %d bytes", n)
	}
}

func TestPromptBeginning(t *testing.T) {
	const body = `{"messages":[{"role":"system"},{"role":"user","n":1},{"role":"assistant"},{"role":"user","n":2},{"role":"user","n":3}],"tools":[]}`
	for messages, want := range map[int]string{
		0:   `[]{"role":"system"}`,
		1:   `[]{"role":"system"}{"role":"user","n":1}`,
		2:   `[]{"role":"system"}{"role":"user","n":1}{"role":"assistant"}{"role":"user","n":2}`,
		100: `[]{"role":"system"}{"role":"user","n":1}{"role":"assistant"}{"role":"user","n":2}{"role":"user","n":3}`,
	} {
		p := openai.ReadPrompt([]byte(body))
		var text bytes.Buffer
		p.Beginning(messages, func(piece []byte) { text.Write(piece) })
		if text.String() != want {
			t.Errorf("beginning with %d messages of the user: %s, want %s", messages, text.String(), want)
		}
	}
}

func FuzzPrompt(f *testing.F) {
	for _, body := range []string{`{"messages":[{"role":"user","content":"a"}]}`, `{"prompt":"a\"b"}`, `{"messages":[`, `[]`, `"`, `{"input":"`} {
		f.Add([]byte(body), 2)
	}
	f.Fuzz(func(t *testing.T, body []byte, messages int) {
		var whole, beginning bytes.Buffer
		collect := func(into *bytes.Buffer) func([]byte) {
			return func(piece []byte) {
				if !bytes.Contains(body, piece) {
					t.Errorf("%q is not of the body", piece)
				}
				into.Write(piece)
			}
		}
		p := openai.ReadPrompt(body)
		p.Text(func(piece []byte) bool { collect(&whole)(piece); return true })
		p.Beginning(messages, collect(&beginning))
		if whole.Len() > len(body) || !bytes.HasPrefix(whole.Bytes(), beginning.Bytes()) {
			t.Errorf("the prompt is %q, and begins with %q", &whole, &beginning)
		}
	})
}

func BenchmarkReadPrompt(b *testing.B) {
	for name, body := range map[string]string{
		"two messages":  `{"model":"m","messages":[{"role":"system","content":"` + strings.Repeat("you are helpful ", 256) + `"},{"role":"user","content":"` + strings.Repeat("and now this ", 1024) + `"}]}`,
		"100 messages":  `{"messages":[` + strings.Repeat(`{"role":"user","content":"`+strings.Repeat("and so on ", 20)+`"},`, 100) + `{}]}`,
		"16 MiB of one": `{"messages":[{"role":"user","content":"` + strings.Repeat("long ", 16<<20/5) + `"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for text := []byte(body); b.Loop(); {
				p := openai.ReadPrompt(text)
				p.Text(func([]byte) bool { return true })
			}
		})
	}
}
