package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"colonnade/openai"
)

// An engine that does not have a model, or a path, says so in the way of its kind; other errors are neither.
func TestLackOf(t *testing.T) {
	t.Parallel()
	f := func(engine string, status int, body string, want openai.Lack) {
		t.Helper()
		if got := openai.LackOf(status, []byte(body), engine, "sql-lora"); got != want {
			t.Errorf("%s: %d %s: %v, want %v", engine, status, body, got, want)
		}
	}
	for _, c := range []struct {
		engine string
		status int
		body   string
	}{
		{"vllm", 404, "{\"error\":{\"message\":\"The model `sql-lora` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"},
		{"vllm", 404, "{\"object\":\"error\",\"message\":\"The model `sql-lora` does not exist.\",\"type\":\"NotFoundError\",\"param\":null,\"code\":404}"},
		{"sglang", 400, `{"object":"error","message":"The following requested LoRA adapters are not loaded: sql-lora\nLoaded adapters: dict_keys([]).","type":"BadRequest","param":null,"code":400}`},
		{"sglang", 400, `{"object":"error","message":"The following requested LoRA adapters are not loaded: {'sql-lora'}\nLoaded adapters: set().","code":400}`},
		{"llamacpp", 400, `{"error":{"code":400,"message":"model 'sql-lora' not found","type":"invalid_request_error"}}`},
		{"ollama", 404, `{"error":{"message":"model \"sql-lora\" not found, try pulling it first","type":"not_found_error","param":null,"code":null}}`},
		{"ollama", 404, `{"error":"model 'sql-lora' not found"}`},
		{"tgi", 404, `{"error":"adapter sql-lora not found","error_type":"validation"}`},
		{"triton", 400, `{"detail":"Unknown model: sql-lora"}`},
		// vllm-project/vllm: vllm/entrypoints/openai/models/serving.py, resolve_lora
		{"vllm", 404, `{"error":{"message":"LoRA adapter sql-lora does not exist","type":"NotFoundError","param":null,"code":404}}`},
		{"vllm", 400, `{"error":{"message":"LoRA adapter 'sql-lora' was found but could not be loaded.","type":"BadRequestError","param":null,"code":400}}`},
		// ggml-org/llama.cpp: tools/server/server-models.cpp, router_validate_model, of this year and of the year before
		{"llamacpp", 400, `{"error":{"code":400,"message":"model is not loaded","type":"invalid_request_error"}}`},
		{"llamacpp", 400, `{"error":{"code":400,"message":"model not found","type":"invalid_request_error"}}`},
		// triton-inference-server/server: python/openai/openai_frontend/engine/triton_engine.py
		{"triton", 400, `{"detail":"Unknown LoRA: lora; for model: sql-lora"}`},
		{"triton", 400, `{"detail":"Unknown LoRA: lora; for model: sql"}`},
		{"openai", 404, "{\"error\":{\"message\":\"The model `x` does not exist or you do not have access to it.\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"model_not_found\"}}"},
		{"openai", 404, `{"error":{"message":"no such thing","param":null,"code":"model_not_found"}}`}, // by the code alone
		{"vllm", 404, `{"error":{"message":"no such thing","param":"model","code":404}}`},              // by the parameter alone
		{"tgi", 404, `{"error":"adapter x not found","error_type":"validation"}`},                      // by another name
		{"vllm", 400, "{\"error\":{\"message\":\"The model `sql-lora` does not exist.\"}}"},
	} {
		f(c.engine, c.status, c.body, openai.LacksModel)
	}
	for _, c := range []struct {
		engine string
		status int
		body   string
	}{
		{"vllm", 404, `{"detail":"Not Found"}`},
		{"vllm", 405, `{"detail":"Method Not Allowed"}`},
		{"llamacpp", 404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`},
		{"ollama", 404, "404 page not found"},
		{"tei", 404, ""},
		{"tgi", 405, ""},
		{"ollama", 405, "405 method not allowed\n"},
		{"openai", 404, `{"error":{"message":"Unknown request URL: POST /v1/x","type":"invalid_request_error","param":null,"code":"unknown_url"}}`},
		// vllm-project/vllm: vllm/entrypoints/openai/server_utils.py, http_exception_handler
		{"vllm", 404, `{"error":{"message":"Not Found","type":"Not Found","param":null,"code":404}}`},
	} {
		f(c.engine, c.status, c.body, openai.LacksPath)
	}
	for _, c := range []struct {
		engine string
		status int
		body   string
	}{
		{"openai", 404, ""}, // it may be anything at that URL
		{"openai", 404, "<html><h1>404 Not Found</h1></html>"},
		{"openai", 404, "the model was not found"}, // of a proxy, perhaps
		{"vllm", 404, `{"error":{"message":"no"}}`},
		{"vllm", 404, `{"error":{"message":"the image was not found"}}`},
		{"vllm", 400, `{"detail":"Not Found"}`},
		{"vllm", 401, `{"detail":"Not Found"}`},
		{"ollama", 503, "404 page not found"},
		{"vllm", 404, `{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":"response_id","code":404}}`},
		{"triton", 400, `{"detail":"Unknown model: sql-lora-2"}`},
		{"triton", 400, `{"detail":"Unknown LoRA: x; for model: another"}`},
		// huggingface/text-generation-inference and text-embeddings-inference: axum answers a wrong key without a body
		{"tgi", 401, ""},
		{"tei", 401, ""},
		{"vllm", 401, "{\"error\":\"The model `sql-lora` does not exist.\"}"},
		{"vllm", 400, `{"error":{"message":"the model sql-lora is not loaded for {\"role\":\"user\"}"}}`},
		{"sglang", 400, `{"message":"bad input: The following requested LoRA adapters are not loaded: sql-lora"}`},
		{"sglang", 400, `{"message":"The following requested LoRA adapters are not loaded: another"}`},
		{"vllm", 500, "{\"error\":{\"message\":\"The model `sql-lora` does not exist.\"}}"},
	} {
		f(c.engine, c.status, c.body, openai.LacksNothing)
	}
	if got := openai.LackOf(400, []byte(`{"message":"The following requested LoRA adapters are not loaded: sql\nLoaded"}`), "sglang", "base:sql"); got != openai.LacksModel {
		t.Errorf("an adapter of SGLang: %v", got)
	}
}

// Text of a client can stand in an engine's error. It is not taken for a word of the engine, or at most for one that the engine's list of
// models must confirm.
func TestEchoIsNoProofOfALack(t *testing.T) {
	t.Parallel()
	f := func(status int, message string, want openai.Lack) {
		t.Helper()
		body := []byte(fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":"response_id","code":404}}`, message))
		if got := openai.LackOf(status, body, "vllm", "sql-lora"); got != want {
			t.Errorf("%d %s: %v, want %v", status, message, got, want)
		}
	}
	f(404, "Response with id 'resp_model' not found.", openai.MayLackModel)
	f(404, "Response with id 'resp_The model `sql-lora` does not exist.' not found.", openai.MayLackModel)
	f(404, `no tool "model 'sql-lora' not found"`, openai.MayLackModel)
	f(404, "cannot fetch http://x/model_not_found: not found", openai.MayLackModel)
	f(400, "cannot parse: The model `sql-lora` does not exist.", openai.LacksNothing)
	f(400, "cannot fetch the image: model is not loaded", openai.LacksNothing)
	f(404, "cannot fetch the image: Not Found", openai.LacksNothing)
	f(404, "cannot fetch the image: File Not Found", openai.LacksNothing)
}

// A log has an engine's words in one short line, without anything that a prompt, a key or an address may be.
func TestEngineWords(t *testing.T) {
	t.Parallel()
	f := func(body, want string) {
		t.Helper()
		if got := openai.EngineWords([]byte(body), "sql-lora", "/v1/chat/completions"); got != want {
			t.Errorf("%.80q: %q, want %q", body, got, want)
		}
	}
	f("{\"error\":{\"message\":\"The model `sql-lora` does not exist.\"}}", "The model `sql-lora` does not exist.")
	f(`{"detail":"Not Found"}`, "Not Found")
	f("404 page not found\n", "… page not found")
	f(`{"error":"Unauthorized"}`, "Unauthorized")                                                            // vLLM and SGLang
	f(`{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`, "Invalid API Key") // llama.cpp
	f(`{"error":"unauthorized","signin_url":"https://ollama.com/connect?key=secret"}`, "unauthorized")       // Ollama, for a model of its cloud
	f(`{"error":{"message":"Incorrect API key provided: sk-proj-abc***xyz. You can"}}`, "Incorrect API key provided: …. You can")
	f(`{"error":{"message":"cannot read input: my secret plan\nis 1234, my\tfriend"}}`, "cannot read input: … is …, …")
	f(`{"message":"request to http://10.0.0.7:8000/v1 failed"}`, "request to http:… failed")
	f(`{"error":{"message":"no path /v1/chat/completions"}}`, "no path /v1/chat/completions")
	f("<html><title>x</title></html>", "a web page")
	f("", "")
	f(`{"error":{"message":"`+strings.Repeat("model ", 100)+`"}}`, strings.TrimSpace(strings.Repeat("model ", 50)))
	f("\xff\xfe key", "… key")
}

// The lack that an engine states does not depend on how it writes its JSON, and a model that is not named anywhere lacks only by words that name none.
func FuzzLackOf(f *testing.F) {
	f.Add(404, []byte(`{"error":{"message":"The model `+"`m`"+` does not exist.","param":"model","code":404}}`), "vllm", "m")
	f.Add(400, []byte(`{"object":"error","message":"The following requested LoRA adapters are not loaded: m\nLoaded adapters: "}`), "sglang", "b:m")
	f.Add(405, []byte(`405 method not allowed`), "ollama", "m")
	f.Add(404, []byte(``), "tgi", "m")
	f.Fuzz(func(t *testing.T, status int, body []byte, engine, model string) {
		said := openai.LackOf(status, body, engine, model)
		if said != openai.LacksNothing && status != 400 && status != 404 && status != 405 {
			t.Fatalf("%d says %v", status, said)
		}
		var loose bytes.Buffer
		if json.Valid(body) && utf8.Valid(body) && json.Indent(&loose, body, " ", "\t") == nil {
			if again := openai.LackOf(status, loose.Bytes(), engine, model); again != said {
				t.Fatalf("%q says %v, and indented %v", body, said, again)
			}
		} else if said == openai.LacksModel && !bytes.Contains(body, []byte("{")) {
			t.Fatalf("%q, which is no JSON, proves that the model is lacking", body)
		}
	})
}
