package engines

import (
	"context"
	"encoding/json"
	"net/http"

	"colonnade/fleet"
)

// The engines that batch continuously and list their models as OpenAI does: vLLM and SGLang.

// vllm describes a vLLM server (vllm-project/vllm: vllm/entrypoints/openai/models/serving.py for the models,
// vllm/entrypoints/serve/instrumentator for /version and /server_info).
func (q inquiry) vllm(ctx context.Context, list modelList) (*Engine, error) {
	e := &Engine{URL: q.url, Kind: "vllm"}
	var version struct {
		Version string `json:"version"`
	}
	p, err := q.optional(ctx, "/version")
	if err != nil {
		return nil, err
	}
	p.into(&version)
	e.Version = version.Version
	if err := q.vllmConfig(ctx, e); err != nil {
		return nil, err
	}
	if e.Slots == 0 {
		e.note("vLLM shows max_num_seqs only in its development mode; if you know it, write it as the concurrency.")
	}
	complete := guessed
	if len(list.Data) > 0 { // all its models answer one API
		if m := q.before.had(e.Kind, e.Version, list.Data[0].ID); m != nil {
			complete = typed(m.Type, m.Note)
		} else if kind, err := q.vllmType(ctx); err != nil {
			return nil, err
		} else if kind != "" {
			complete = typed(kind, "")
		}
	}
	list.addTo(e, complete)
	return e, nil
}

// vllmConfig reads what vLLM shows in its development mode: how many requests run at once, on all of the server's data-parallel ranks, and
// where these publish events.
func (q inquiry) vllmConfig(ctx context.Context, e *Engine) error {
	var info struct {
		Config struct {
			Scheduler struct {
				MaxNumSeqs int `json:"max_num_seqs"`
			} `json:"scheduler_config"`
			Parallel struct {
				Size       int  `json:"data_parallel_size"`
				ExternalLB bool `json:"data_parallel_external_lb"` // each rank has a server of its own
				HybridLB   bool `json:"data_parallel_hybrid_lb"`
				Local      int  `json:"data_parallel_size_local"`
			} `json:"parallel_config"`
			Events eventsConfig `json:"kv_events_config"`
		} `json:"vllm_config"` // a text in versions that do not know config_format
	}
	p, err := q.optional(ctx, "/server_info?config_format=json")
	if err != nil {
		return err
	}
	p.into(&info)
	ranks := info.Config.Parallel.Size
	switch {
	case info.Config.Parallel.ExternalLB:
		ranks = 1
	case info.Config.Parallel.HybridLB:
		ranks = info.Config.Parallel.Local
	}
	e.Slots = clampSlots(info.Config.Scheduler.MaxNumSeqs, ranks)
	if !info.Config.Parallel.ExternalLB && !info.Config.Parallel.HybridLB { // whose ranks begin with another one
		e.KVEvents = info.Config.Events.address(e.URL, ranks)
	}
	return nil
}

// vllmType returns which API the models answer: "" if the server does not show it. vLLM has the paths of the tasks that its model
// supports (build_app in vllm/entrypoints/openai/api_server.py); GET of a path for POST is answered 405, of any other 404.
// Older versions have all paths.
func (q inquiry) vllmType(ctx context.Context) (fleet.ModelType, error) {
	has := map[string]bool{}
	for _, path := range []string{"/v1/chat/completions", "/v1/embeddings", "/v1/rerank", "/v1/audio/transcriptions"} {
		p, err := q.optional(ctx, path)
		if err != nil {
			return "", err
		}
		has[path] = p.status == http.StatusMethodNotAllowed
	}
	switch {
	case has["/v1/chat/completions"] && has["/v1/embeddings"]:
		return "", nil
	case has["/v1/chat/completions"]:
		return fleet.TypeChat, nil
	case has["/v1/embeddings"]:
		return typeEmbedding, nil
	case has["/v1/rerank"]:
		return typeRerank, nil
	case has["/v1/audio/transcriptions"]:
		return typeAudio, nil
	}
	return "", nil
}

// sglang describes an SGLang server (sgl-project/sglang: python/sglang/srt/entrypoints/http_server.py). Its pages had names
// that begin with get_ before.
func (q inquiry) sglang(ctx context.Context, list modelList) (*Engine, error) {
	e := &Engine{URL: q.url, Kind: "sglang"}
	var model struct {
		Generates *bool `json:"is_generation"`
	}
	if err := q.either(ctx, &model, "/model_info", "/get_model_info"); err != nil {
		return nil, err
	}
	var server struct {
		Version     string          `json:"version"`
		MaxRunning  int             `json:"max_running_requests"` // as configured; null by default
		DataRanks   int             `json:"dp_size"`
		Events      json.RawMessage `json:"kv_events_config"` // as its flag had it; null by default
		RankReports []struct {
			MaxRunning int `json:"effective_max_running_requests_per_dp"`
		} `json:"internal_states"`
	}
	if err := q.either(ctx, &server, "/server_info", "/get_server_info"); err != nil {
		return nil, err
	}
	e.Version, e.KVEvents = server.Version, eventsOf(server.Events).address(e.URL, server.DataRanks)
	for _, rank := range server.RankReports {
		e.Slots = clampSlots(e.Slots+max(rank.MaxRunning, 0), 1)
	}
	if e.Slots == 0 {
		e.Slots = clampSlots(server.MaxRunning, 1)
	}
	complete := guessed
	switch {
	case model.Generates == nil:
	case *model.Generates:
		complete = typed(fleet.TypeChat, "")
	default:
		complete = embedder
	}
	list.addTo(e, complete)
	return e, nil
}

// embedder sets the type of a model that generates no text.
func embedder(m Model) Model {
	if guessType(m.Upstream) == typeRerank {
		return typed(typeRerank, "The engine says that the model generates no text; type rerank is assumed from its name.")(m)
	}
	return typed(typeEmbedding, "")(m)
}

// either reads the first page that exists.
func (q inquiry) either(ctx context.Context, v any, paths ...string) error {
	for _, path := range paths {
		p, err := q.optional(ctx, path)
		if err != nil || p.into(v) {
			return err
		}
	}
	return nil
}

// mostSlots is the greatest concurrency that documents accept.
const mostSlots = 10000

func clampSlots(perRank, ranks int) int {
	perRank, ranks = min(max(perRank, 0), mostSlots), min(max(ranks, 1), mostSlots)
	return min(perRank*ranks, mostSlots)
}
