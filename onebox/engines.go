package onebox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/simengine"
)

// shortQueue is a pool with a short queue, so that a few dozen requests at once show everything that can happen to one.
const shortQueue = "queue: {limit: 24, per_account: 12, max_wait: 3s}\n"

// demo has the documents of the fleet of `colonnade up`.
const demo = `
key: pools/demo
` + shortQueue + `---
key: models/demo-chat
aliases: [default]
type: chat
pool: demo
---
key: models/demo-embed
type: embedding
pool: demo
---
key: models/demo-realtime
type: realtime
pool: demo
`

// startEngines starts the simulated engines, or reads the models of the real one, and returns the documents of all.
func (b *allInOne) startEngines(ctx context.Context) ([]document.Raw, error) {
	var docs []document.Raw
	for _, name := range b.config.Colos {
		docs = append(docs, encodeDocument("colos/"+name, map[string]any{"region": b.config.Latency.region(name, b.config.Colos)}))
	}
	if b.config.EngineURL != "" {
		own, err := b.realEngine(ctx)
		return append(docs, own...), err
	}
	own, err := document.SplitFile([]byte(demo))
	if err != nil {
		return nil, err
	}
	docs = append(docs, own...)
	for _, colo := range b.config.Colos {
		for n := range b.config.Engines {
			e, err := b.startEngine(colo, fmt.Sprintf("sim-%d", n+1))
			if err != nil {
				return nil, err
			}
			docs = append(docs, encodeDocument("endpoints/"+colo+"/"+e.ID, map[string]any{
				"url": e.URL, "pool": "demo", "engine": "openai", "concurrency": b.config.Engine.Slots,
			}))
		}
	}
	return docs, nil
}

func (b *allInOne) startEngine(colo, id string) (EngineNode, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return EngineNode{}, fmt.Errorf("cannot listen for an engine: %w", err)
	}
	config := b.config.Engine
	config.Models = []string{"demo-chat", "demo-embed", "demo-realtime"}
	config.Logger = b.logger("engine " + colo + "/" + id)
	e := EngineNode{Colo: colo, ID: id, URL: "http://" + ln.Addr().String(), Simulated: simengine.New(config)}
	b.fleet.Engines = append(b.fleet.Engines, e)
	return e, b.run("engine "+colo+"/"+id, func(ctx context.Context, ready func()) error {
		defer e.Simulated.Close()
		ready()
		return simengine.Serve(ctx, ln, e.Simulated)
	})
}

// realEngine returns the documents for the engine at EngineURL: its pool, one endpoint in the first colo, and its
// models.
func (b *allInOne) realEngine(ctx context.Context) ([]document.Raw, error) {
	url := strings.TrimSuffix(strings.TrimSuffix(b.config.EngineURL, "/"), "/v1")
	models, err := b.modelsOf(ctx, url)
	if err != nil {
		return nil, err
	}
	colo := b.config.Colos[0]
	b.fleet.Engines = append(b.fleet.Engines, EngineNode{Colo: colo, ID: "engine", URL: url})
	docs := []document.Raw{
		{Key: "pools/engine", Value: []byte(shortQueue)},
		encodeDocument("endpoints/"+colo+"/engine", map[string]any{
			"url": url, "pool": "engine", "engine": "openai", "concurrency": b.config.Engine.Slots,
		}),
	}
	for i, name := range models {
		model := map[string]any{"pool": "engine", "type": fleet.TypeGeneric}
		if i == 0 {
			model["aliases"] = []string{"default"}
		}
		doc := encodeDocument("models/"+name, model)
		if err := document.Check(doc.Key, doc.Value); err != nil {
			b.progress(fmt.Sprintf("model %q of the engine is left out: %v", name, err))
			continue
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// modelsOf returns the model of the config, which the engine must list unless it has no list, or all models that the engine lists.
func (b *allInOne) modelsOf(ctx context.Context, url string) ([]string, error) {
	listed, err := listModels(ctx, url)
	switch name := b.config.EngineModel; {
	case name == "" && err != nil:
		return nil, fmt.Errorf("cannot read the models of the engine at %s: %w; name one with -engine-model", url, err)
	case name == "":
		return listed, nil
	case err != nil:
		b.progress(fmt.Sprintf("not checked whether the engine has the model %q: %v", name, err))
		return []string{name}, nil
	case !slices.Contains(listed, name):
		return nil, fmt.Errorf("the engine at %s does not have the model %q (-engine-model); it lists %s", url, name, strings.Join(listed, ", "))
	}
	return []string{b.config.EngineModel}, nil
}

func listModels(ctx context.Context, url string) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/models", nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: 10 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET /v1/models answered %s", answer.Status)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("GET /v1/models: %w", err)
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	if len(names) == 0 {
		return nil, errors.New("GET /v1/models lists none")
	}
	return names, nil
}

// encodeDocument encodes a value of this package's own types.
func encodeDocument(key string, value any) document.Raw {
	b, err := json.Marshal(value)
	if err != nil {
		panic("onebox: " + err.Error()) // strings, numbers and lists of them
	}
	return document.Raw{Key: key, Value: b}
}
