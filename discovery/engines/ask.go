package engines

import (
	"context"
	"fmt"

	"colonnade/fleet"
)

// Ask asks the engine at a URL what it is. The error is a *[NotEngineError] if something answers that cannot be used as an engine;
// any other error says that the engine is not up. It takes at most 20 s, and opens connections of its own: the name in the URL is
// resolved each time.
func Ask(ctx context.Context, rawURL string) (*Engine, error) { return askAgain(ctx, rawURL, nil) }

// askAgain is Ask for an engine that may have answered before: pages that only say which API a model answers are not read again for
// models that it had then.
func askAgain(ctx context.Context, rawURL string, before *Engine) (*Engine, error) {
	url, err := normalURL(rawURL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	q := newInquiry(url)
	q.before = before
	defer q.client.CloseIdleConnections()
	return q.ask(ctx)
}

func (q inquiry) ask(ctx context.Context) (*Engine, error) {
	first, err := q.get(ctx, "/v1/models")
	if err != nil {
		return nil, err
	}
	var list modelList
	listed := first.into(&list) && (list.Data != nil || list.Object == "list")
	if listed {
		switch list.owner() {
		case "vllm":
			return q.vllm(ctx, list)
		case "sglang":
			return q.sglang(ctx, list)
		case "llamacpp":
			return q.llamacpp(ctx, list)
		case "Triton Inference Server":
			return q.triton(list), nil
		}
	}
	for _, kind := range []func(context.Context) (*Engine, error){q.ollama, q.huggingFace} {
		if e, err := kind(ctx); e != nil || err != nil {
			return e, err
		}
	}
	if listed {
		return q.openAI(list), nil
	}
	return nil, q.other(ctx, first)
}

// other returns the error for something without a list of models.
func (q inquiry) other(ctx context.Context, first page) error {
	server, err := q.probe(ctx, "/v2")
	if err != nil {
		return err
	}
	var named struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	// KServe's metadata of a server, at the HTTP port of Triton (triton-inference-server/server: docs/protocol).
	if server.into(&named) && named.Name == "triton" {
		return &NotEngineError{URL: q.url, Answer: fmt.Sprintf("it is the KServe API of Triton %s, which no client of OpenAI's API can use", printable(named.Version)),
			Advice: "start Triton's OpenAI front end (python/openai/openai_frontend/main.py) and give its URL, which has port 9000 by default"}
	}
	return q.notEngine(first)
}

// modelList is the answer to GET /v1/models.
type modelList struct {
	Object string `json:"object"`
	Data   []struct {
		ID      string `json:"id"`
		OwnedBy string `json:"owned_by"`
		Root    string `json:"root"`
		Parent  string `json:"parent"`
		// vLLM and SGLang say it for models, and not for adapters.
		MaxModelLen int `json:"max_model_len"`
	} `json:"data"`
}

// owner returns the owner of all models; "" if they have several, as behind a gateway.
func (l modelList) owner() string {
	owner := ""
	for i, m := range l.Data {
		if i > 0 && m.OwnedBy != owner {
			return ""
		}
		owner = m.OwnedBy
	}
	return owner
}

// addTo adds the models of the list to an engine. complete sets what the list does not say. Adapters and further names of one model
// get it as their base.
func (l modelList) addTo(e *Engine, complete func(Model) Model) {
	byRoot := map[string]string{}
	for _, listed := range l.Data {
		m := Model{Upstream: listed.ID, MaxModelLen: max(listed.MaxModelLen, 0), Base: modelName(listed.Parent)}
		if m.Base == "" && listed.Root != "" {
			m.Base = byRoot[listed.Root]
		}
		if m.Base == modelName(listed.ID) {
			m.Base = ""
		}
		if _, known := byRoot[listed.Root]; !known && m.Base == "" {
			byRoot[listed.Root] = modelName(listed.ID)
		}
		e.add(complete(m))
	}
	if len(e.Models) == 0 {
		e.note("It lists no model that can be used.")
	}
}

// openAI describes an engine of which only the list of models is known.
func (q inquiry) openAI(list modelList) *Engine {
	e := &Engine{URL: q.url, Kind: fleet.EngineOpenAI}
	e.note("It has none of the pages by which known engines say what they are.")
	list.addTo(e, guessed)
	return e
}

// triton describes Triton's OpenAI front end. It says neither its version nor which APIs a model answers
// (triton-inference-server/server: python/openai/openai_frontend/engine/triton_engine.py).
func (q inquiry) triton(list modelList) *Engine {
	e := &Engine{URL: q.url, Kind: "triton"}
	list.addTo(e, func(m Model) Model {
		m = guessed(m)
		m.MaxModelLen = 0
		return m
	})
	return e
}

// typed returns a function that sets the type of a model, with a note.
func typed(t fleet.ModelType, note string) func(Model) Model {
	return func(m Model) Model {
		m.Type, m.Note = t, note
		return m
	}
}
