package openai_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"colonnade/openai"
)

// countedTexts are texts with the tokens that real tokenizers have counted; testdata/tokenizers/count.mjs has written them.
func countedTexts(t *testing.T) (counted struct {
	Vocabularies map[string]struct{ Words, Letters int }
	Texts        []struct {
		Text   string
		Tokens map[string]int
	}
}) {
	t.Helper()
	data, err := os.ReadFile("testdata/tokenizers/counts.json")
	if err == nil {
		err = json.Unmarshal(data, &counted)
	}
	if err != nil || len(counted.Vocabularies) < 7 || len(counted.Texts) < 20 {
		t.Fatalf("%d vocabularies, %d texts, %v", len(counted.Vocabularies), len(counted.Texts), err)
	}
	return counted
}

// No token of a real vocabulary stands for more than the bounds have it, so no real prompt has fewer tokens than the bound; the texts are
// those for which it is tightest, and others.
func TestPromptTokensAtLeast(t *testing.T) {
	counted := countedTexts(t)
	for name, most := range counted.Vocabularies {
		if most.Words > openai.WordsOfToken || most.Letters > openai.LettersOfToken {
			t.Errorf("a token of %s has %d words and %d letters", name, most.Words, most.Letters)
		}
	}
	for _, c := range counted.Texts {
		quoted, err := json.Marshal(c.Text)
		if err != nil {
			t.Fatal(err)
		}
		for api, body := range map[openai.API]string{
			openai.Chat:        `{"model":"m","messages":[{"role":"user","content":%s}]}`,
			openai.Completions: `{"model":"m","prompt":%s}`,
			openai.Responses:   `{"model":"m","input":%s}`,
			openai.Messages:    `{"model":"m","messages":[{"content":[{"type":"text","text":%s}],"role":"user"}]}`,
		} {
			n := openai.PromptTokensAtLeast(api, fmt.Appendf(nil, body, quoted))
			for name, tokens := range c.Tokens {
				if n > tokens {
					t.Errorf("%s of %.40q: at least %d tokens, and %s has %d", api, c.Text, n, name, tokens)
				}
			}
		}
	}
}

// A prompt has the parts that every template has, lists of tokens are counted one by one, and a body that may be shortened has no bound.
func TestPromptTokensAtLeastOfBodies(t *testing.T) {
	words := strings.Repeat("one two three four ", 10) // 10 tokens at least
	for _, c := range []struct {
		api  openai.API
		body string
		want int
	}{
		{openai.Chat, `{"messages":[{"role":"system","content":"W"},{"role":"user","content":[{"type":"text","text":"W"},{"type":"image_url","image_url":{"url":"W"}}]}]}`, 20},
		{openai.Chat, `{"messages":[{"role":"assistant","content":"W"},{"role":"tool","content":"W"}],"tools":["W"]}`, 0},
		{openai.Chat, `{"messages":[{"role":"user","content":"W"}],"truncate_prompt_tokens":5}`, 0},
		{openai.Messages, `{"system":[{"type":"text","text":"W"}],"messages":[{"role":"user","content":"W"}]}`, 20},
		{openai.Responses, `{"instructions":"W","input":[{"role":"user","content":[{"type":"input_text","text":"W"}]}],"truncation":"disabled"}`, 20},
		{openai.Responses, `{"input":"W","truncation":"auto"}`, 0},
		{openai.Completions, `{"prompt":["W","WW","a"]}`, 20},
		{openai.Completions, `{"prompt":[1,2,3]}`, 3},
		{openai.Completions, `{"prompt":[[1,2,3],[4,5,6,7],[]]}`, 4},
		{openai.Embeddings, `{"input":"W"}`, 0},
		{openai.Chat, `{"messages":[{"role":"user","content":[{"text":"W","text":"a"}]}]}`, 1},
		{openai.Messages, `{"system":"W","messages":[{"role":"user","content":"W"}],"system":"","messages":[]}`, 0},
		{openai.Completions, `{"prompt":["W"],"prompt":"a"}`, 1},
	} {
		if got := openai.PromptTokensAtLeast(c.api, []byte(strings.ReplaceAll(c.body, "W", words))); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.api, c.body, got, c.want)
		}
	}
}

// The bound is that of what encoding/json reads, for each API.
func FuzzPromptTokensAtLeast(f *testing.F) {
	addBodies(f)
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"text":"a b c d e","text":"a b"}]},{"role":"system","content":"x\u0020y"}],"input":"a b c d e f"}`))
	f.Add([]byte(`{"model":"m","prompt":[[1,2],"a b",3],"system":"a b c d e","instructions":"-a b","truncation":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, api := range []openai.API{openai.Chat, openai.Completions, openai.Responses, openai.Messages} {
			if _, err := openai.Peek(api, jsonType, body); err != nil {
				continue
			}
			var root map[string]any
			if err := json.Unmarshal(body, &root); err != nil {
				t.Fatalf("%q is no JSON: %v", body, err)
			}
			if got, most := openai.PromptTokensAtLeast(api, body), naiveTokens(api, root); got > most {
				t.Fatalf("%v %q: at least %d tokens, and a naive reader finds %d", api, body, got, most)
			}
		}
	})
}

// naiveTokens is the bound for a body, however it may be shortened.
func naiveTokens(api openai.API, root map[string]any) int {
	switch api {
	case openai.Completions:
		return naivePrompt(root["prompt"])
	case openai.Responses:
		return naiveBound(naiveTexts(root["input"], true) + "\n" + naiveTexts(root["messages"], true) + "\n" + naiveTexts(root["instructions"], false))
	case openai.Messages:
		return naiveBound(naiveTexts(root["messages"], true) + "\n" + naiveTexts(root["system"], false))
	}
	return naiveBound(naiveTexts(root["messages"], true))
}

func naivePrompt(v any) int {
	list, isList := v.([]any)
	if !isList {
		return naiveBound(naiveTexts(v, false))
	}
	most := len(list)
	for _, element := range list {
		switch element := element.(type) {
		case string:
			most = max(most, naiveBound(element))
		case []any:
			most = max(most, len(element))
		}
	}
	return most
}

// naiveTexts joins the texts of a content, or of a list of messages.
func naiveTexts(v any, messages bool) (all string) {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, element := range v {
			if o, isObject := element.(map[string]any); isObject && messages {
				all += "\n" + naiveTexts(o["content"], false)
			} else if text, isText := o["text"].(string); isObject && isText {
				all += "\n" + text
			}
		}
	}
	return all
}

func naiveBound(text string) int {
	letters := 0
	for _, r := range text {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			letters++
		}
	}
	words := len(strings.Fields(text))
	return max((words+openai.WordsOfToken-1)/openai.WordsOfToken, (letters+openai.LettersOfToken-1)/openai.LettersOfToken)
}
