package openai_test

import (
	"strings"
	"testing"

	"colonnade/openai"
)

func TestOutputs(t *testing.T) {
	f := func(api openai.API, members string, want float64) {
		t.Helper()
		peeked, err := openai.Peek(api, jsonType, []byte(`{"model":"m",`+members+`}`))
		if err != nil || peeked.Outputs() != want {
			t.Errorf("%v %s: %v, %v", api, members, peeked.Outputs(), err)
		}
	}
	f(openai.Chat, `"messages":[{},{}]`, 1)
	f(openai.Chat, `"n":5`, 5)
	f(openai.Chat, `"n":null,"best_of":null`, 1)
	f(openai.Chat, `"n":0`, 1)
	f(openai.Chat, `"n":2,"best_of":7`, 7)
	f(openai.Chat, `"n_cmpl":9,"n":3`, 9)
	f(openai.Images, `"n":4,"prompt":["a","b"]`, 4)
	f(openai.Completions, `"prompt":"text"`, 1)
	f(openai.Completions, `"prompt":[1,2,3]`, 1)
	f(openai.Completions, `"prompt":[]`, 1)
	f(openai.Completions, `"prompt":["a","b" , "c"]`, 3)
	f(openai.Completions, `"prompt":[[1,2],[3]],"n":10`, 20)
	f(openai.Completions, `"prompt":[1,"a",[2],{"prompt_string":"b"}]`, 3)
	f(openai.Completions, `"prompt":{"prompt_string":"b"}`, 1)
	f(openai.Completions, `"prompt":null`, 1)
	f(openai.Embeddings, `"input":["a","b"],"prompt":["a"]`, 2)
	f(openai.Embeddings, `"input":[1,2]`, 1)
	f(openai.Embeddings, `"input":[[1],[2],[3]]`, 3)
	f(openai.Embeddings, `"inputs":["a","b"]`, 2)
	f(openai.Embeddings, `"content":["a","b"]`, 2)
	f(openai.Embeddings, `"input":["a","b"],"content":["a"]`, 3)
	f(openai.Rerank, `"query":"q","documents":["a",{"text":"b"}]`, 2)
	f(openai.Rerank, `"query":"q","texts":["a","b","c"]`, 3)
	f(openai.Responses, `"input":[{},{},{}]`, 1)
	f(openai.Chat, `"documents":[{},{}],"prompt":[],"input":[1]`, 1)
	form, err := openai.Peek(openai.Images, formType, []byte(formBody("model|m", "n|3")))
	if err != nil || form.Outputs() != 3 {
		t.Errorf("a form: %v, %v", form.Outputs(), err)
	}
}

// Engines read some spellings of numbers alike and others not, so that only one is accepted.
func TestCountsMustBePlain(t *testing.T) {
	for _, value := range []string{`"5"`, "5.0", "1e3", "-1", "true", "[5]", "{}", "1000000000000000", `""`} {
		for _, name := range []string{"n", "best_of", "n_cmpl"} {
			_, err := openai.Peek(openai.Completions, jsonType, []byte(`{"model":"m","`+name+`":`+value+`}`))
			if err == nil || err.Number != openai.NumberInvalidRequest || err.Param != name {
				t.Errorf("%s %s: %v", name, value, err)
			}
		}
	}
	for _, value := range []string{"", " 5", "5.0", "1_0", "+5", "٥"} {
		if _, err := openai.Peek(openai.Images, formType, []byte(formBody("model|m", "n|"+value))); err == nil {
			t.Errorf("a form with n %q", value)
		}
	}
	for _, body := range []string{`{"model":"m","prompt":["a",]}`, `{"model":"m","prompt":["a"`, `{"model":"m","prompt":[1 2]}`, `{"model":"m","n":01}`} {
		if _, err := openai.Peek(openai.Completions, jsonType, []byte(body)); err == nil {
			t.Errorf("accepted %s", body)
		}
	}
}

func TestCheckCounts(t *testing.T) {
	limits := openai.Limits{Completions: 8, Inputs: 3}
	f := func(api openai.API, members, param, text string) {
		t.Helper()
		peeked, err := openai.Peek(api, jsonType, []byte(`{"model":"m",`+members+`}`))
		if err != nil {
			t.Fatal(err)
		}
		err = peeked.CheckCounts(limits, "demo")
		switch {
		case text == "" && err != nil, text != "" && err == nil:
			t.Errorf("%v %s: %v", api, members, err)
		case err != nil && (err.Param != param || !strings.HasPrefix(err.Message, text) || !strings.Contains(err.Message, `"demo"`) || err.Status != 400):
			t.Errorf("%v %s: %q %s", api, members, err.Param, err.Message)
		}
	}
	f(openai.Chat, `"n":8`, "", "")
	f(openai.Chat, `"n":9`, "n", `"n" is 9: one request may ask for at most 8 completions (max_completions of`)
	f(openai.Chat, `"n":999999999999999`, "n", `"n" is 999999999999999: `)
	f(openai.Completions, `"n":1,"best_of":10`, "best_of", `"best_of" is 10: `)
	f(openai.Completions, `"prompt":["","","",""],"n":2`, "", "")
	f(openai.Completions, `"prompt":["","","",""],"n":3`, "prompt", `"prompt" has 4 prompts and "n" is 3, which makes 12 completions: one request may ask for at most 8 (`)
	f(openai.Completions, `"prompt":["","","","","","","","",""]`, "prompt", `"prompt" has 9 prompts: one request may ask for at most 8 completions (`)
	f(openai.Embeddings, `"input":["","",""],"n":8`, "", "")
	f(openai.Embeddings, `"input":["","","",""]`, "input", `"input" has 4 elements: one request may have at most 3 (max_inputs of`)
	f(openai.Rerank, `"documents":["","","",""]`, "documents", `"documents" has 4 elements: `)
}
