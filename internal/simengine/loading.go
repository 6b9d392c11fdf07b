package simengine

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// missing begins the names and paths that no engine finds.
const missing = "missing"

// setLoading adds the paths by which engines of the kind load models and adapters while they run. An engine of no kind has those of vLLM.
func (e *Engine) setLoading() {
	switch e.c.Kind {
	case "", "vllm":
		e.routes["POST /v1/load_lora_adapter"] = e.vllmLoad
		e.routes["POST /v1/unload_lora_adapter"] = e.vllmUnload
	case "sglang":
		e.routes["POST /load_lora_adapter"] = e.sglangAdapter(e.addAdapter)
		e.routes["POST /unload_lora_adapter"] = e.sglangAdapter(e.removeAdapter)
	case "ollama":
		e.routes["POST /api/generate"] = e.ollamaGenerateOrLoad(e.routes["POST /api/generate"])
	case "llamacpp":
		e.routes["POST /models/load"] = e.llamacppModel
		e.routes["POST /models/unload"] = e.llamacppModel
	}
}

// adapterBody is the body of vLLM and SGLang.
type adapterBody struct {
	Name string `json:"lora_name"`
	Path string `json:"lora_path"`
}

// readLoading decodes a body into v; it answers 400 if it cannot.
func readLoading(w http.ResponseWriter, r *http.Request, v any) bool {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 4<<10))
	if err := json.Unmarshal(body, v); err != nil {
		writeJSON(w, http.StatusBadRequest, marshal(object{"error": "invalid JSON: " + err.Error()}))
		return false
	}
	return true
}

// addAdapter reports whether the adapter was not loaded before.
func (e *Engine) addAdapter(name string) bool {
	return e.changeAdapters(func(names []string) []string { return append(names, name) }, name, false)
}

// loadsNow loads an adapter with a request for it, and reports whether it is there.
func (e *Engine) loadsNow(name string) bool {
	if strings.Contains(name, missing) {
		return false
	}
	if e.addAdapter(name) {
		e.loads.Add(1)
	}
	return true
}

// removeAdapter reports whether the adapter was loaded before.
func (e *Engine) removeAdapter(name string) bool {
	return e.changeAdapters(func(names []string) []string {
		return slices.DeleteFunc(names, func(known string) bool { return known == name })
	}, name, true)
}

// changeAdapters changes a copy of the adapters, if name is among them or not.
func (e *Engine) changeAdapters(change func([]string) []string, name string, has bool) bool {
	for {
		before := e.adapters.Load()
		names := slices.Clone(e.loaded())
		if slices.Contains(names, name) != has {
			return false
		}
		names = change(names)
		if e.adapters.CompareAndSwap(before, &names) {
			return true
		}
	}
}

func (e *Engine) vllmLoad(w http.ResponseWriter, r *http.Request) {
	var asked adapterBody
	if !readLoading(w, r, &asked) {
		return
	}
	refuse := func(status int, kind, message string) {
		writeError(w, apiError{Status: status, Type: kind, Message: message})
	}
	switch {
	case asked.Name == "" || asked.Path == "":
		refuse(http.StatusBadRequest, "InvalidUserInput", "Both 'lora_name' and 'lora_path' must be provided.")
	case strings.Contains(asked.Path, missing):
		refuse(http.StatusNotFound, "NotFoundError", "Loading lora "+asked.Name+" failed: No adapter found for "+asked.Path)
	case !e.addAdapter(asked.Name):
		refuse(http.StatusBadRequest, "InvalidUserInput", "The lora adapter '"+asked.Name+"' has already been loaded.")
	default:
		writeText(w, "Success: LoRA adapter '"+asked.Name+"' added successfully.")
	}
}

func (e *Engine) vllmUnload(w http.ResponseWriter, r *http.Request) {
	var asked adapterBody
	if !readLoading(w, r, &asked) {
		return
	}
	if !e.removeAdapter(asked.Name) {
		writeError(w, apiError{Status: http.StatusNotFound, Type: "NotFoundError", Message: "The lora adapter '" + asked.Name + "' cannot be found."})
		return
	}
	writeText(w, "Success: LoRA adapter '"+asked.Name+"' removed successfully.")
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // fails if the client has left
}

func (e *Engine) sglangAdapter(change func(string) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked adapterBody
		if !readLoading(w, r, &asked) {
			return
		}
		problem := ""
		switch {
		case strings.Contains(asked.Path, missing):
			problem = "Failed to load LoRA adapter " + asked.Name + ": " + asked.Path + " is not a directory"
		case !change(asked.Name):
			problem = "LoRA with name " + asked.Name + " is loaded already, or is not loaded"
		}
		adapters := object{}
		for _, name := range e.loaded() {
			adapters[name] = "/adapters/" + name
		}
		answer, status := object{"success": problem == "", "loaded_adapters": adapters}, http.StatusOK
		if problem != "" {
			answer["error_message"], status = problem, http.StatusBadRequest
		}
		writeJSON(w, status, marshal(answer))
	}
}

// ollamaGenerate loads or unloads a model: a request without a prompt generates nothing.
func (e *Engine) ollamaGenerate(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model     string `json:"model"`
		KeepAlive int    `json:"keep_alive"`
	}
	if !readLoading(w, r, &asked) {
		return
	}
	if !slices.Contains(e.names(), asked.Model) {
		writeJSON(w, http.StatusNotFound, marshal(object{"error": fmt.Sprintf("model '%s' not found", asked.Model)}))
		return
	}
	done := "load"
	if asked.KeepAlive == 0 {
		done = "unload"
	}
	writeJSON(w, http.StatusOK, marshal(object{"model": asked.Model, "created_at": e.started, "response": "", "done": true, "done_reason": done}))
}

func (e *Engine) llamacppModel(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model string `json:"model"`
	}
	if !readLoading(w, r, &asked) {
		return
	}
	if !slices.Contains(e.names(), asked.Model) {
		writeJSON(w, http.StatusBadRequest, marshal(object{"error": object{"code": 400, "message": "model is not found", "type": "invalid_request_error"}}))
		return
	}
	writeJSON(w, http.StatusOK, marshal(object{"success": true}))
}

// tritonModel answers for /v2/repository/models/NAME/load and /unload, if path is one of them.
func (e *Engine) tritonModel(w http.ResponseWriter, path string) bool {
	rest, ok := strings.CutPrefix(path, "/v2/repository/models/")
	if !ok || e.c.Kind != "triton" {
		return false
	}
	name, load := strings.CutSuffix(rest, "/load")
	if !load {
		if name, ok = strings.CutSuffix(rest, "/unload"); !ok {
			return false
		}
	}
	switch {
	case load && strings.Contains(name, missing):
		writeJSON(w, http.StatusBadRequest, marshal(object{"error": "failed to load '" + name + "', failed to poll from model repository"}))
	case load:
		e.addAdapter(name)
		w.WriteHeader(http.StatusOK)
	default:
		e.removeAdapter(name)
		w.WriteHeader(http.StatusOK)
	}
	return true
}
