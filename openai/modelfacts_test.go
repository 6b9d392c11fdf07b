package openai_test

import (
	"encoding/json"
	"maps"
	"testing"

	"colonnade/openai"
)

// The page of each kind is read for what the engine says; what has another form counts for nothing.
func TestModelFacts(t *testing.T) {
	f := func(body string, want map[string]openai.ModelFact) {
		t.Helper()
		if got := openai.ModelFacts([]byte(body)); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
	}
	type facts = map[string]openai.ModelFact
	f(`{"object":"list","data":[{"id":"a","object":"model","owned_by":"vllm","max_model_len":4096,"permission":[{"id":"p"}]},{"id":"lora","owned_by":"vllm","max_model_len":null}]}`,
		facts{"a": {MaxModelLen: 4096, OwnedBy: "vllm"}, "lora": {OwnedBy: "vllm"}})
	f(`{"data":[{"id":"a","owned_by":"Triton Inference Server"},{"id":"b","owned_by":" "}]}`, facts{"a": {OwnedBy: "Triton Inference Server"}})
	f(`{"data":[{"id":"a","meta":{"n_ctx_train":9}},7,{"owned_by":"x"}],"models":[{"max_model_len":8}]}`, facts{})
	f(`{"model_id":"a","max_total_tokens":2048,"max_input_tokens":2000}`, facts{"": {MaxModelLen: 2048}})
	f(`{"default_generation_settings":{"n_ctx":8192,"params":{"n_ctx":1}},"total_slots":4}`, facts{"": {MaxModelLen: 8192}})
	f(`{"data":[{"id":"a","owned_by":"two words\n","max_model_len":-5}],"max_total_tokens":"many","default_generation_settings":[]}`, facts{})
	f(`{"data":{"id":"a"}}`, facts{})
	f(`[]`, nil)
	f(`{"data":[`, nil)
	f(``, nil)
	for kind, want := range map[string]string{"tgi": "/info", "llamacpp": "/props", "vllm": "/v1/models", "": "/v1/models"} {
		if got := openai.FactsPath(kind); got != want {
			t.Errorf("%s says it at %s, want %s", kind, got, want)
		}
	}
	a, b := openai.ModelFact{MaxModelLen: 9, OwnedBy: "x"}, openai.ModelFact{MaxModelLen: 5, OwnedBy: "y"}
	if got := (openai.ModelFact{}).And(a).And(b).And(openai.ModelFact{}); got != (openai.ModelFact{MaxModelLen: 5, OwnedBy: "x"}) {
		t.Errorf("together: %+v", got)
	}
}

func FuzzModelFacts(f *testing.F) {
	for _, seed := range []string{`{"data":[{"id":"a","max_model_len":5,"owned_by":"b"}]}`, `{"max_total_tokens":7}`, `{"default_generation_settings":{"n_ctx":1}}`, `{"data":[[]]}`, `{`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		facts := openai.ModelFacts([]byte(body))
		if facts != nil && json.Valid([]byte(body)) && body[0] == '[' {
			t.Fatalf("%q: %v", body, facts)
		}
		for name, fact := range facts {
			if fact == (openai.ModelFact{}) || fact.MaxModelLen < 0 || len(fact.OwnedBy) > 64 {
				t.Fatalf("%q: %q is %+v", body, name, fact)
			}
		}
	})
}
