package engines

import (
	"errors"
	"strings"
	"testing"
)

// Each kind of engine is asked in its own way.
func TestLoadingCalls(t *testing.T) {
	t.Parallel()
	f := func(l Loading, path, body string) {
		t.Helper()
		c, err := l.Call()
		if err != nil || c.Path != path || string(c.Body) != body {
			t.Errorf("%+v: %s %s, %v; want %s %s", l, c.Path, c.Body, err, path, body)
		}
	}
	f(Loading{Engine: "vllm", Name: "sql", Source: "/adapters/sql"}, "/v1/load_lora_adapter", `{"lora_name":"sql","lora_path":"/adapters/sql"}`)
	f(Loading{Engine: "vllm", Name: "acme/sql"}, "/v1/load_lora_adapter", `{"lora_name":"acme/sql","lora_path":"acme/sql"}`)
	f(Loading{Engine: "vllm", Name: "sql", Unload: true}, "/v1/unload_lora_adapter", `{"lora_name":"sql"}`)
	f(Loading{Engine: "sglang", Name: "qwen:sql", Source: "/a"}, "/load_lora_adapter", `{"lora_name":"sql","lora_path":"/a"}`)
	f(Loading{Engine: "sglang", Name: "sql", Unload: true}, "/unload_lora_adapter", `{"lora_name":"sql"}`)
	f(Loading{Engine: "ollama", Name: "qwen3:8b"}, "/api/generate", `{"keep_alive":-1,"model":"qwen3:8b","stream":false}`)
	f(Loading{Engine: "ollama", Name: "qwen3:8b", Unload: true}, "/api/generate", `{"keep_alive":0,"model":"qwen3:8b","stream":false}`)
	f(Loading{Engine: "llamacpp", Name: "qwen3"}, "/models/load", `{"model":"qwen3"}`)
	f(Loading{Engine: "llamacpp", Name: "qwen3", Unload: true}, "/models/unload", `{"model":"qwen3"}`)
	f(Loading{Engine: "triton", Name: "a/b"}, "/v2/repository/models/a%2Fb/load", `{}`)
	f(Loading{Engine: "triton", Name: "ensemble", Unload: true}, "/v2/repository/models/ensemble/unload", `{}`)
}

// An engine that can load nothing is not asked, and the error says what it can do.
func TestLoadingUnsupported(t *testing.T) {
	t.Parallel()
	for engine, want := range map[string]string{"tgi": "--model-id", "tei": "--model-id", "openai": "how it would unload a model; vLLM"} {
		var unsupported *UnsupportedError
		_, err := Loading{Engine: engine, Name: "m", Unload: true}.Call()
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", engine, err)
		}
	}
}

// A name that would change the path of the request is refused.
func TestLoadingNamesOfPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".", ".."} {
		if c, err := (Loading{Engine: "triton", Name: name}).Call(); !errors.Is(err, ErrModelName) {
			t.Errorf("%s: %q, %v", name, c.Path, err)
		}
	}
}

// The engine's own words come back, of each form in which engines say them.
func TestLoadingOutcome(t *testing.T) {
	t.Parallel()
	call, err := Loading{Engine: "vllm", Name: "sql"}.Call()
	if err != nil {
		t.Fatal(err)
	}
	f := func(status int, body, said, failure string) {
		t.Helper()
		got, err := call.Outcome(status, []byte(body), asItIs)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != said || text != failure {
			t.Errorf("%d %s: %q, %q; want %q, %q", status, body, got, text, said, failure)
		}
	}
	f(200, "Success: LoRA adapter 'sql' added successfully.", "Success: LoRA adapter 'sql' added successfully.", "")
	f(200, `{"success":true,"loaded_adapters":{}}`, "", "")
	f(200, `{"done":true,"done_reason":"load"}`, "load", "")
	f(200, "", "", "")
	f(400, `{"error":{"message":"has already\n been loaded","type":"InvalidUserInput"}}`, "", "the engine answered 400: has already been loaded")
	f(400, `{"object":"error","message":"no such path"}`, "", "the engine answered 400: no such path")
	f(404, `{"error":"model 'x' not found"}`, "", "the engine answered 404: model 'x' not found ("+call.hint+")")
	f(404, `{"detail":"Not Found"}`, "", "the engine answered 404: Not Found ("+call.hint+")")
	f(400, `{"success":false,"error_message":"is not a directory"}`, "", "the engine answered 400: is not a directory")
	f(200, `{"success":false,"error_message":"is not a directory"}`, "", "the engine answered 200: is not a directory")
	f(200, `{"error":"out of memory"}`, "", "the engine answered 200: out of memory")
	f(500, "<html>", "", "the engine answered 500: a web page")
	f(500, "", "", "the engine answered 500: no reason")
	f(500, strings.Repeat("x", 10_000), "", "the engine answered 500: "+strings.Repeat("x", maxShown)+"…")
}

func asItIs(said string) string { return said }

// A secret is taken out of the decoded words, also where they are shortened within it.
func TestLoadingOutcomeWithoutSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cret/key"
	redact := func(said string) string { return strings.ReplaceAll(said, secret, "…") }
	filler := strings.Repeat("x", maxShown-4)
	for body, want := range map[string]string{
		`{"message": "bad key s3cret\/key"}`:               "bad key …",
		`{"error": {"message": "\u00733cret/key is bad"}}`: "… is bad",
		`{"message": "` + filler + `s3cret\/key"}`:         filler + "…",
		"no JSON: s3cret/key":                              "no JSON: …",
	} {
		_, err := LoadingCall{}.Outcome(401, []byte(body), redact)
		if want = "the engine answered 401: " + want; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
