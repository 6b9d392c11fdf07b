package simengine

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kinds are the values of Config.Kind. Do not modify it.
var Kinds = []string{"vllm", "sglang", "tgi", "tei", "llamacpp", "ollama", "triton", "openai"}

// setKind replaces the pages about the engine by those of its kind.
func (e *Engine) setKind() {
	if e.c.Kind == "" {
		return
	}
	for _, page := range []string{"GET /health", "GET /health/ready", "GET /api/version"} {
		delete(e.routes, page)
	}
	e.setPaths()
	if !hasMetrics(e.c.Kind) {
		delete(e.routes, "GET /metrics")
	}
	health := "GET /health"
	switch e.c.Kind {
	case "vllm":
		e.vllm()
	case "sglang":
		e.sglang()
	case "tgi":
		e.routes["GET /info"] = e.page(e.tgiInfo)
	case "tei":
		e.routes["GET /info"] = e.page(e.teiInfo)
		delete(e.routes, "GET /v1/models")
	case "llamacpp":
		e.routes["GET /props"] = e.page(e.llamacppProps)
	case "ollama":
		e.ollama()
		health = "GET /api/version"
	case "triton":
		health = "GET /health/ready"
	case "openai":
		health = "GET /v1/models"
	}
	if _, has := e.routes[health]; !has {
		e.routes[health] = e.probe(e.healthy)
	}
}

// object is a JSON object.
type object map[string]any

// page answers with what content returns.
func (e *Engine) page(content func() any) http.HandlerFunc {
	return e.probe(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, marshal(content())) })
}

// listed returns an element of the list of models as the engine's kind writes it.
func (e *Engine) listed(name string) any {
	m := e.model(name)
	out := object{"id": m.ID, "object": m.Object, "created": m.Created}
	switch e.c.Kind {
	case "vllm", "sglang":
		out["owned_by"], out["root"], out["parent"], out["max_model_len"] = e.c.Kind, e.names()[0], nil, e.c.MaxModelLen
	case "llamacpp":
		out["owned_by"], out["meta"] = "llamacpp", object{"n_ctx_train": 16 * e.c.MaxModelLen}
	case "triton":
		out["owned_by"] = "Triton Inference Server"
	case "ollama":
		out["owned_by"] = "library"
	case "tgi":
		out["owned_by"] = name
	default:
		return m
	}
	return out
}

func (e *Engine) vllm() {
	e.routes["GET /version"] = e.page(func() any { return object{"version": "0.11.0"} })
	if e.c.Dev {
		e.routes["GET /server_info"] = e.page(func() any {
			return object{"vllm_config": object{
				"scheduler_config": object{"max_num_seqs": e.c.Slots},
				"parallel_config":  object{"data_parallel_size": 1, "data_parallel_size_local": 1, "data_parallel_external_lb": false, "data_parallel_hybrid_lb": false},
			}}
		})
	}
}

func (e *Engine) sglang() {
	e.routes["GET /model_info"] = e.page(func() any {
		return object{"model_path": e.names()[0], "tokenizer_path": e.names()[0], "is_generation": e.c.Type == "chat", "preferred_sampling_params": nil}
	})
	e.routes["GET /server_info"] = e.page(func() any {
		return object{"model_path": e.names()[0], "max_running_requests": nil, "dp_size": 1, "version": "0.5.3",
			"internal_states": []object{{"effective_max_running_requests_per_dp": e.c.Slots}}}
	})
}

func (e *Engine) tgiInfo() any {
	return object{"model_id": e.names()[0], "model_sha": nil, "model_pipeline_tag": "text-generation", "max_concurrent_requests": 128,
		"max_best_of": 2, "max_stop_sequences": 4, "max_input_tokens": e.c.MaxModelLen - 1, "max_total_tokens": e.c.MaxModelLen,
		"validation_workers": 2, "max_client_batch_size": 4, "router": "text-generation-router", "version": "3.3.6"}
}

func (e *Engine) teiInfo() any {
	kind := object{"embedding": object{"pooling": "cls"}}
	if e.c.Type == "rerank" {
		kind = object{"reranker": object{"id2label": object{"0": "LABEL_0"}, "label2id": object{"LABEL_0": 0}}}
	}
	return object{"model_id": e.names()[0], "model_sha": nil, "model_dtype": "float16", "model_type": kind, "max_concurrent_requests": 512,
		"max_input_length": e.c.MaxModelLen, "max_batch_tokens": 16384, "max_batch_requests": nil, "max_client_batch_size": 32,
		"auto_truncate": false, "tokenization_workers": 4, "version": "1.8.2"}
}

func (e *Engine) llamacppProps() any {
	return object{"default_generation_settings": object{"n_ctx": e.c.MaxModelLen, "params": object{}}, "total_slots": e.c.Slots,
		"model_path": "/models/" + e.names()[0] + ".gguf", "modalities": object{"vision": false, "audio": false}, "build_info": "b6765-466c1911"}
}

func (e *Engine) ollama() {
	e.routes["GET /api/version"] = e.page(func() any { return object{"version": "0.12.6"} })
	e.routes["GET /api/tags"] = e.page(func() any {
		models := []object{}
		for _, name := range e.names() {
			models = append(models, object{"name": name, "model": name, "modified_at": e.started.Format(time.RFC3339Nano), "size": 1,
				"details": object{"format": "gguf", "parameter_size": "8B"}})
		}
		return object{"models": models}
	})
	e.routes["POST /api/show"] = e.probe(e.ollamaShow)
}

// ollamaShow takes models for embeddings that have embed in their name.
func (e *Engine) ollamaShow(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model string `json:"model"`
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, 4<<10))
	if err := json.Unmarshal(body, &asked); err != nil || !slices.Contains(e.names(), asked.Model) {
		writeJSON(w, http.StatusNotFound, marshal(object{"error": fmt.Sprintf("model '%s' not found", asked.Model)}))
		return
	}
	can := []string{"completion", "tools"}
	if e.c.Type == "embedding" || strings.Contains(asked.Model, "embed") {
		can = []string{"embedding"}
	}
	writeJSON(w, http.StatusOK, marshal(object{"capabilities": can, "details": object{"format": "gguf"}}))
}
