package engines

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"colonnade/fleet"
)

// llamacpp describes a llama.cpp server (ggml-org/llama.cpp: tools/server/README.md). While it loads its model, /props is answered 503.
// A router, which starts a server for each model, has no slots of its own.
func (q inquiry) llamacpp(ctx context.Context, list modelList) (*Engine, error) {
	p, err := q.get(ctx, "/props")
	if err != nil {
		return nil, err
	}
	var props struct {
		Slots    int    `json:"total_slots"`
		Build    string `json:"build_info"`
		Role     string `json:"role"`
		Settings struct {
			Context int `json:"n_ctx"` // of one slot
		} `json:"default_generation_settings"`
	}
	p.into(&props)
	e := &Engine{URL: q.url, Kind: "llamacpp", Version: props.Build, Slots: clampSlots(props.Slots, 1)}
	if props.Role == "router" {
		e.note("It is a router that loads models on demand, and does not say how many requests they run at once.")
	}
	list.addTo(e, func(m Model) Model {
		m = guessed(m)
		m.MaxModelLen = max(props.Settings.Context, 0)
		return m
	})
	return e, nil
}

// maxShows bounds the questions about single models of one engine.
const maxShows = 128

// ollama describes an Ollama server (ollama/ollama: docs/api.md, types/model/capability.go); nil if it is none. No page
// says what OLLAMA_NUM_PARALLEL is.
func (q inquiry) ollama(ctx context.Context) (*Engine, error) {
	p, err := q.probe(ctx, "/api/version", "ollama")
	if err != nil {
		return nil, err
	}
	var version struct {
		Version string `json:"version"`
		Gateway string `json:"gateway"` // of an entry, whose models are not Ollama's
	}
	if !p.into(&version) || version.Version == "" || version.Gateway != "" {
		return nil, nil
	}
	if p, err = q.probe(ctx, "/api/tags", "ollama"); err != nil {
		return nil, err
	}
	var tags struct {
		Models []ollamaModel `json:"models"`
	}
	if !p.into(&tags) || tags.Models == nil {
		return nil, nil
	}
	e := &Engine{URL: q.url, Kind: "ollama", Version: version.Version}
	// Ollama lists the newest first. Pulling a model again must not change the order.
	slices.SortFunc(tags.Models, func(a, b ollamaModel) int { return strings.Compare(a.Name, b.Name) })
	for i, m := range tags.Models {
		if known := q.before.had(e.Kind, e.Version, m.Name); known != nil {
			e.add(Model{Upstream: m.Name, Type: known.Type, Note: known.Note})
			continue
		}
		if len(m.Capabilities) == 0 && i < maxShows {
			if m.Capabilities, err = q.ollamaCapabilities(ctx, m.Name); err != nil {
				return nil, err
			}
		}
		e.add(m.describe())
	}
	if len(e.Models) == 0 {
		e.note("It has no model yet: run ollama pull.")
	}
	return e, nil
}

type ollamaModel struct {
	Name         string   `json:"name"`
	Capabilities []string `json:"capabilities"` // absent in older versions
}

// ollamaCapabilities asks what one model can do; older versions do not say it.
func (q inquiry) ollamaCapabilities(ctx context.Context, model string) ([]string, error) {
	p, err := q.post(ctx, "/api/show", map[string]string{"model": model})
	if err != nil {
		return nil, err
	}
	var show ollamaModel
	p.into(&show)
	return show.Capabilities, nil
}

func (m ollamaModel) describe() Model {
	out := Model{Upstream: m.Name}
	for _, can := range []struct {
		capability string
		kind       fleet.ModelType
	}{{"completion", fleet.TypeChat}, {"embedding", typeEmbedding}, {"image", typeImage}} {
		if slices.Contains(m.Capabilities, can.capability) {
			out.Type = can.kind
			return out
		}
	}
	return guessed(out)
}

// huggingFace describes a TGI server (huggingface/text-generation-inference: router/src/lib.rs, Info) or a TEI server
// (huggingface/text-embeddings-inference: router/src/lib.rs, Info); nil if it is neither. TEI has no list of models.
func (q inquiry) huggingFace(ctx context.Context) (*Engine, error) {
	p, err := q.probe(ctx, "/info", "tgi", "tei")
	if err != nil {
		return nil, err
	}
	var info huggingFaceInfo
	if !p.into(&info) || info.ModelID == "" {
		return nil, nil
	}
	kinds := map[string]json.RawMessage{}
	_ = json.Unmarshal(info.ModelType, &kinds) // not an object: not TEI
	for name, kind := range map[string]fleet.ModelType{"embedding": typeEmbedding, "reranker": typeRerank, "classifier": fleet.TypeGeneric} {
		if _, ok := kinds[name]; ok {
			return q.tei(info, kind), nil
		}
	}
	if info.Router == "text-generation-router" || info.MaxTotalTokens > 0 {
		return q.tgi(info), nil
	}
	return nil, nil
}

type huggingFaceInfo struct {
	ModelID string `json:"model_id"`
	Version string `json:"version"`
	// TGI
	Router         string `json:"router"`
	MaxTotalTokens int    `json:"max_total_tokens"`
	MaxBatch       int    `json:"max_batch_size"` // null unless it was set
	// TEI
	ModelType   json.RawMessage `json:"model_type"` // such as {"embedding": {"pooling": "cls"}}
	ServedName  string          `json:"served_model_name"`
	MaxInputLen int             `json:"max_input_length"`
}

func (q inquiry) tgi(info huggingFaceInfo) *Engine {
	e := &Engine{URL: q.url, Kind: "tgi", Version: info.Version, Slots: clampSlots(info.MaxBatch, 1)}
	e.add(Model{Upstream: info.ModelID, Type: fleet.TypeChat, MaxModelLen: max(info.MaxTotalTokens, 0)})
	return e
}

func (q inquiry) tei(info huggingFaceInfo, kind fleet.ModelType) *Engine {
	e := &Engine{URL: q.url, Kind: "tei", Version: info.Version}
	name := info.ServedName
	if name == "" {
		name = info.ModelID
	}
	m := Model{Upstream: name, Type: kind, MaxModelLen: max(info.MaxInputLen, 0)}
	switch kind {
	case fleet.TypeGeneric:
		m.Note = "A classifier answers POST /predict, which is no path of this gateway."
	case typeRerank:
		m.Note = "TEI answers POST /rerank with texts in place of documents."
	}
	e.add(m)
	return e
}
