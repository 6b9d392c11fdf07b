package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"colonnade/admin/api"
	"colonnade/discovery/engines"
	"colonnade/fleet"
)

// listTime is the longest time that the list of models of an engine may take.
const listTime = 5 * time.Second

// MisdirectedError says that another node has to be asked.
type MisdirectedError struct {
	Why  string
	Ask  []string // admin listeners, as host:port
	Node string   // where they are, for people
}

// Error returns one sentence.
func (e *MisdirectedError) Error() string {
	if len(e.Ask) == 0 {
		return e.Why + "; no admin listener of " + e.Node + " is known"
	}
	return fmt.Sprintf("%s; ask %s, at the admin listener %s", e.Why, e.Node, strings.Join(e.Ask, " or "))
}

// NoEndpointError says that there is no such document.
type NoEndpointError struct{ Key string }

// Error returns one sentence.
func (e *NoEndpointError) Error() string { return "there is no document " + e.Key }

// load has an engine load or unload a model, and reads its list of models afterwards. The error is an *[engines.UnsupportedError], an
// *[engines.EngineError], a *[MisdirectedError] or a *[NoEndpointError], or says that the engine could not be asked. ctx must have a deadline.
func (r *runtime) load(ctx context.Context, l api.Loading) (api.Loaded, error) {
	e, err := r.endpointHere(l.Colo, l.Endpoint)
	if err != nil {
		return api.Loaded{}, err
	}
	asked := engines.Loading{Engine: e.Engine, Unload: l.Unload, Name: l.Model, Source: l.Source}
	if m, ok := r.watcher.Table().Model(l.Model); ok && m.Pool == e.Pool {
		asked.Name = e.NameOf(m)
		if engines.LoadsAdapters(e.Engine) && m.Adapter == "" {
			return api.Loaded{}, asked.OnlyAdapters()
		}
	}
	call, err := asked.Call()
	if err != nil {
		return api.Loaded{}, err
	}
	answer, err := r.colo.CallEngine(ctx, e, call.Path, call.Body)
	if err != nil {
		return api.Loaded{}, fmt.Errorf("the engine at %s has given no answer, and may or may not have done it: %w", e.URL, err)
	}
	said, err := call.Outcome(answer.Status, answer.Body, answer.Redact)
	if err != nil {
		return api.Loaded{}, err
	}
	r.config.Logger.Info("model changed on an endpoint", "endpoint", e.ID, "url", e.URL, "model", asked.Name, "unloaded", l.Unload, "said", said)
	list, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTime)
	defer cancel()
	return api.Loaded{
		Endpoint: fleet.KindEndpoint.Key(e.Colo, e.ID), Engine: e.Engine, Model: asked.Name, Said: said, Models: r.colo.ReadModels(list, e),
	}, nil
}

// endpointHere returns an endpoint of which this server grants the permits: what its engine lists afterwards decides here where
// requests go.
func (r *runtime) endpointHere(colo, id string) (*fleet.Endpoint, error) {
	t, key := r.watcher.Table(), fleet.KindEndpoint.Key(colo, id)
	if r.colo == nil || r.siblings != nil && r.siblings.colo != colo {
		return nil, r.misdirected(t, colo, "engines are asked by the servers of their colo")
	}
	for _, e := range t.EndpointsOf(colo) {
		if e.ID != id {
			continue
		}
		if r.siblings != nil {
			if home := r.siblings.keeper.Home(e.Pool); !home.Here {
				return nil, r.misdirected(t, colo, fmt.Sprintf("server %s is the home of pool %s", home.Node, e.Pool), home.Node)
			}
		}
		return e, nil
	}
	return nil, &NoEndpointError{key}
}

// misdirected names the admin listeners of a colo's servers, or of some of them.
func (r *runtime) misdirected(t *fleet.Table, colo, why string, only ...string) error {
	wrong := &MisdirectedError{Why: why, Node: "a server of colo " + colo}
	for _, s := range t.Registered(colo) {
		if s.Admin != "" && (len(only) == 0 || s.Node == only[0]) {
			wrong.Ask = append(wrong.Ask, s.Admin)
		}
	}
	if len(only) > 0 {
		wrong.Node = only[0]
	}
	return wrong
}
