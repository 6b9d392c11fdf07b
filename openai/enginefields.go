package openai

import (
	"math/bits"
	"slices"
)

// EngineFields is a set of [EngineField]s. The zero value is the empty set.
type EngineFields uint64

// EngineField is a field that an engine reads in addition to those of OpenAI's API, and by which a request chooses what the
// operator should choose, such as an adapter, a peer or a file.
type EngineField struct {
	Name    string
	Chooses string   // for the documentation
	Engines []string // that read it; "openai" stands for other engines and proxies with this API
}

// FileURLs is the name of the one EngineField that is no member of a body: a URL of the scheme file, or the path of a file.
const FileURLs = "file_urls"

// AllEngineFields returns the table of engine fields. Each name was found in the engine's own request schema or
// documentation: vLLM (entrypoints/openai), SGLang (srt/entrypoints/openai/protocol.py), llama.cpp (tools/server), TGI and
// LoRAX (GenerateParameters), Ollama (api/types.go), TensorRT-LLM (serve/openai_protocol.py), Dynamo (nvext.rs), LMDeploy,
// LiteLLM ("Clientside LLM Credentials") and OpenRouter ("Model Fallbacks", "Provider Routing").
func AllEngineFields() []EngineField { return engineFieldTable }

var engineFieldTable = []EngineField{
	{"lora_path", "a LoRA adapter", []string{"sglang"}},
	{"lora", "LoRA adapters and their scales", []string{"llamacpp"}},
	{"lora_request", "a LoRA adapter, by its path", []string{"openai"}},
	{"adapter_id", "a LoRA adapter", []string{"tgi"}},
	{"adapter_source", "the place from which a LoRA adapter is loaded", []string{"openai"}},
	{"models", "other models to fall back to", []string{"openai"}},
	{"provider", "the providers that serve the model", []string{"openai"}},
	{"route", "a fallback to other models", []string{"openai"}},
	{"fallbacks", "other models to fall back to", []string{"openai"}},
	{"kv_transfer_params", "a peer to transfer the KV cache with", []string{"vllm"}},
	{"ec_transfer_params", "a peer to transfer the encoder cache with", []string{"vllm"}},
	{"vllm_xargs", "parameters of extensions, `kv_transfer_params` among them", []string{"vllm"}},
	{"disaggregated_params", "the peer that has processed the prompt", []string{"openai"}},
	{"bootstrap_host", "the peer that processes the prompt", []string{"sglang"}},
	{"bootstrap_port", "the peer that processes the prompt", []string{"sglang"}},
	{"bootstrap_room", "the transfer between two peers", []string{"sglang"}},
	{"api_base", "the server that generates", []string{"openai"}},
	{"base_url", "the server that generates", []string{"openai"}},
	{"extra_body", "any field of the server behind a proxy, those of this table among them", []string{"openai"}},
	{"extra_headers", "headers to the server behind a proxy", []string{"openai"}},
	{"user_config", "servers, models and keys", []string{"openai"}},
	{"data_parallel_rank", "a data-parallel rank", []string{"sglang"}},
	{"routed_dp_rank", "a data-parallel rank", []string{"sglang"}},
	{"disagg_prefill_dp_rank", "a data-parallel rank", []string{"sglang"}},
	{"nvext", "a worker, a rank and a priority", []string{"openai"}},
	{"conversation_params", "the worker of a conversation", []string{"openai"}},
	{"priority", "the order in which the engine serves requests", []string{"vllm", "sglang"}},
	{"id_slot", "a slot and its cached prompt", []string{"llamacpp"}},
	{"session_id", "a session and its cached prompts", []string{"vllm", "sglang"}},
	{"session_params", "a session and its cached prompts", []string{"sglang"}},
	{"rid", "the engine's id of the request", []string{"sglang"}},
	{"request_id", "the engine's id of the request", []string{"vllm"}},
	{"chat_template", "a template that the engine executes, also inside `chat_template_kwargs`", []string{"vllm"}},
	{"prompt_embeds", "tensors that the engine loads", []string{"vllm"}},
	{"custom_logit_processor", "code that the engine runs", []string{"sglang"}},
	{"logits_processors", "code that the engine runs", []string{"vllm"}},
	{"ngram_corpus_id", "a corpus for speculative decoding", []string{"sglang"}},
	{"parameters", "the parameters of the engine's own API, `adapter_id` among them", []string{"tgi"}},
	{"options", "the size of the context and other settings for which the model is loaded again", []string{"ollama"}},
	{"keep_alive", "how long the model stays in memory", []string{"ollama"}},
	{"template", "a template that the engine executes", []string{"ollama"}},
	{FileURLs, "not a field, but any file on the engine's machine as an image, audio or video: a URL that begins with `file:`, or a path", []string{"vllm", "sglang", "llamacpp"}},
}

// namedField is an engine field as a field of bodies.
type namedField struct {
	name string
	is   field
}

// engine returns the set of one engine field.
func (f field) engine() EngineFields { return 1 << (f - firstEngineField) }

// engineFieldsByLength has the fields of the table by the length of their names, which tells most of them apart: each member of each
// body that has no other field is looked up here.
var engineFieldsByLength = func() (fields [maxEngineField + 1][]namedField) {
	for i, f := range engineFieldTable {
		if n := len(f.Name); f.Name != FileURLs {
			fields[n] = append(fields[n], namedField{f.Name, firstEngineField + field(i)})
		}
	}
	return fields
}()

// maxEngineField is the length of the longest name.
const maxEngineField = 22

// engineFieldNamed returns the engine field called key, or 0.
func engineFieldNamed(key []byte) field {
	if len(key) == 0 || len(key) > maxEngineField {
		return 0
	}
	for _, f := range engineFieldsByLength[len(key)] {
		if f.name[0] == key[0] && f.name == string(key) {
			return f.is
		}
	}
	return 0
}

// EngineFieldsOf returns the fields that an engine reads: all of them for an engine that is not listed here, and for "openai", which
// is any engine or proxy with this API.
func EngineFieldsOf(engine string) EngineFields {
	switch engine {
	case "vllm", "sglang", "tgi", "tei", "llamacpp", "ollama":
	default:
		return 1<<len(engineFieldTable) - 1
	}
	var set EngineFields
	for i, f := range engineFieldTable {
		if slices.Contains(f.Engines, engine) {
			set |= 1 << i
		}
	}
	return set
}

// EngineFieldsNamed returns the fields with these names; unknown names count for nothing.
func EngineFieldsNamed(names []string) EngineFields {
	var set EngineFields
	for i, f := range engineFieldTable {
		if slices.Contains(names, f.Name) {
			set |= 1 << i
		}
	}
	return set
}

// First returns the name of the first field of the set, which must not be empty.
func (s EngineFields) First() string {
	return engineFieldTable[bits.TrailingZeros64(uint64(s))].Name
}
