package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// Actions are what a node does beside changing documents. They return errors of type *[Error].
type Actions struct {
	Node    func() NodeState
	Drain   func(by string, force bool) error // by is the name of a token
	Undrain func(by string) error
	Load    func(context.Context, Loading) (Loaded, error) // waits for the engine until its context ends
}

// NodeState is what operators see of one node.
type NodeState struct {
	Node     string     `json:"node"`
	Document string     `json:"document,omitempty"` // its registration; empty = it has none
	Role     string     `json:"role"`               // entry, colo or serve
	Version  string     `json:"version"`
	State    string     `json:"state"` // starting, active, draining or ending
	Drain    *NodeDrain `json:"drain,omitempty"`
	InFlight int        `json:"in_flight"`         // requests that it has
	Homes    []string   `json:"homes,omitempty"`   // pools whose permits a colo server grants
	Problem  string     `json:"problem,omitempty"` // why other nodes may not know the state
}

// NodeDrain is the drain of a node by an operator.
type NodeDrain struct {
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
}

func nodeSchema() schema {
	return object("A node as it is now.",
		"node", text("Name."), "document?", text("Key of its registration; a process that serves one place has none."),
		"role", schema{"type": "string", "enum": []string{"entry", "colo", "serve"}}, "version", text("Version of the software."),
		"state", schema{"type": "string", "enum": []string{"starting", "active", "draining", "ending"}},
		"drain?", object("The drain by an operator.", "since", schema{"type": "string", "format": "date-time"}, "by?", text("Name of the token.")),
		"in_flight", schema{"type": "integer", "description": "Requests that the node has. A node that drains may be stopped at 0."},
		"homes?", array(text("Pool whose permits the colo server grants.")),
		"problem?", text("Why other nodes may not know the state yet."))
}

// Loading asks for a model to be loaded or unloaded on an endpoint.
type Loading struct {
	Colo, Endpoint string
	Model          string // of a document, or as the engine calls it
	Source         string // of an adapter: where the engine finds it; empty = by its name
	Unload         bool
}

// Loaded is what became of a [Loading].
type Loaded struct {
	Endpoint string   `json:"endpoint"` // key of the document
	Engine   string   `json:"engine"`   // its kind
	Model    string   `json:"model"`    // as the engine calls it
	Said     string   `json:"said,omitempty"`
	Models   []string `json:"models"` // that the engine lists now; null = it lists none
}

func loadedSchema() schema {
	return object("The answer of the engine.",
		"endpoint", text("Key of the document."), "engine", text("Kind of the engine."), "model", text("The model, as the engine calls it."),
		"said?", text("The engine's own words."),
		"models", schema{"type": []string{"array", "null"}, "items": schema{"type": "string"}, "description": "All models that the engine lists now; null if it has no list."})
}

// maxLoading is the longest time that an engine may take to load a model: one of many gigabytes is read from a disk.
const maxLoading = 10 * time.Minute

// actionRoutes are the operations on nodes and endpoints.
func (a *api) actionRoutes() []route {
	all := []route{{
		id: "getNode", method: http.MethodGet, path: "/node", tag: "node", summary: "The state of the node that answers",
		answers: []result{{status: http.StatusOK, content: asJSON("The state.", ref("Node"))}},
		errors:  []int{http.StatusNotImplemented},
		handle:  func(*call) (*answer, error) { return a.node() },
	}, {
		id: "drainNode", method: http.MethodPost, path: "/node/drain", tag: "node", summary: "Drain the node that answers, without the end of its process",
		description: "The node is registered as draining and is not ready, as after SIGTERM, and pools of a colo server move to the other servers of its colo. No request is cut or refused. " +
			"The answer is 409 if no other node would serve, and 503 if etcd does not answer; force drains nevertheless. A process that is started again is not drained.",
		query:   []parameter{{"force", "Also if no other node serves then, or etcd does not answer.", schema{"type": "boolean"}}},
		answers: []result{{status: http.StatusOK, content: asJSON("The state.", ref("Node"))}},
		errors:  []int{http.StatusConflict, http.StatusNotImplemented},
		handle: func(c *call) (*answer, error) {
			force, err := c.flag("force")
			if err != nil {
				return nil, err
			}
			return a.changeNode(func() error { return a.Actions.Drain(c.user, force) })
		},
	}, {
		id: "undrainNode", method: http.MethodPost, path: "/node/undrain", tag: "node", summary: "Take the node that answers back after a drain",
		description: "It is ready and registered as active again, and its pools move back. To take back a node that does not drain changes nothing.",
		answers:     []result{{status: http.StatusOK, content: asJSON("The state.", ref("Node"))}},
		errors:      []int{http.StatusConflict, http.StatusNotImplemented},
		handle: func(c *call) (*answer, error) {
			return a.changeNode(func() error { return a.Actions.Undrain(c.user) })
		},
	}}
	return append(all,
		a.stateRoute("drain", fleet.StateDraining, "Send no new requests to an endpoint",
			"Sets state: draining in its document. Its running requests go on, its health is still checked, and its slots count nowhere. "+
				"The answer is 409 if, by the documents, no other endpoint would serve a model then, unless it is forced. "+
				"The health of the other endpoints does not count: look first at colonnade status, whether their engines are up."),
		a.stateRoute("undrain", "", "Send requests to an endpoint again", "Takes the field state out of its document."),
		a.loadRoute("load", false, "Load a model or an adapter on the engine of an endpoint",
			"In the way of the engine: LoRA adapters of vLLM and SGLang, models of Ollama, of a llama.cpp router and of Triton. The answer is 501 for others. "),
		a.loadRoute("unload", true, "Unload a model or an adapter from the engine of an endpoint", "As for load. The engine decides what becomes of requests that use the model. "),
	)
}

var errNoActions = &Error{Status: http.StatusNotImplemented, Message: "this process cannot do that"}

func (a *api) node() (*answer, error) {
	if a.Actions.Node == nil {
		return nil, errNoActions
	}
	return &answer{body: a.Actions.Node()}, nil
}

func (a *api) changeNode(change func() error) (*answer, error) {
	if a.Actions.Node == nil {
		return nil, errNoActions
	}
	if err := change(); err != nil {
		return nil, err
	}
	return a.node()
}

// stateRoute sets the field state of an endpoint's document; empty = it takes the field out.
func (a *api) stateRoute(verb, state, summary, description string) route {
	return route{
		id: verb + "Endpoint", method: http.MethodPost, path: "/endpoints/{colo}/{endpoint}/" + verb, tag: string(fleet.KindEndpoint), summary: summary,
		description: description, query: editQuery, header: []parameter{ifMatch},
		answers: []result{{http.StatusOK, []parameter{etagHeader}, asJSON("The document was changed, or is the same as before, or this was a dry run.", ref("Change"))}},
		errors:  append([]int{http.StatusNotFound}, editErrors...),
		handle: func(c *call) (*answer, error) {
			key := fleet.KindEndpoint.Key(c.PathValue("colo"), c.PathValue("endpoint"))
			if err := document.CheckKey(key); err != nil {
				return nil, err
			}
			return a.edit(c, key, func(before etcd.Stored, there bool) (etcd.Edit, error) {
				switch {
				case !there:
					return etcd.Edit{}, notFound(key)
				case before.Leased:
					return etcd.Edit{}, &Error{Status: http.StatusConflict, Message: key + " is registered under a lease, and its registrar would overwrite a change: have the registrar put it with state: draining"}
				}
				doc, err := document.Raw{Key: key, Value: before.Value}.SetField("state", state)
				return etcd.Edit{Put: []document.Raw{doc}}, err
			})
		},
	}
}

func (a *api) loadRoute(verb string, unload bool, summary, description string) route {
	return route{
		id: verb + "Model", method: http.MethodPost, path: "/endpoints/{colo}/{endpoint}/" + verb, tag: string(fleet.KindEndpoint), summary: summary,
		description: description + "Afterwards the list of models of the engine is read again. Colo servers and processes that serve one place do this; other nodes answer 409 with the admin listeners that do. An error has the engine's own words.",
		timeout:     maxLoading,
		body: new(asJSON("The model.", object("Which model.",
			"model", text("Name of a model document, or the name that the engine has for it."),
			"source?", text("Of an adapter of vLLM or SGLang: a directory on the engine's machine, or a repository. Without it, the name of the adapter.")))),
		answers: []result{{status: http.StatusOK, content: asJSON("The engine has done it.", ref("Loaded"))}},
		errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusNotImplemented, http.StatusBadGateway, http.StatusGatewayTimeout},
		handle: func(c *call) (*answer, error) {
			var asked struct {
				Model  string `json:"model"`
				Source string `json:"source"`
			}
			if err := c.readJSON(&asked); err != nil {
				return nil, err
			}
			if asked.Model == "" {
				return nil, errBadRequest("model", "model: is required")
			}
			if len(asked.Model) > document.MaxText || len(asked.Source) > document.MaxText {
				return nil, errBadRequest("model", fmt.Sprintf("model and source have at most %d bytes", document.MaxText))
			}
			if a.Actions.Load == nil {
				return nil, errNoActions
			}
			done, err := a.Actions.Load(c.Context(), Loading{
				Colo: c.PathValue("colo"), Endpoint: c.PathValue("endpoint"), Model: asked.Model, Source: asked.Source, Unload: unload,
			})
			if err != nil {
				return nil, err
			}
			a.Logger.Info("model "+verb+"ed by the admin API", "user", c.user, "endpoint", done.Endpoint, "model", done.Model, "said", done.Said) //nolint:sloglint // one of two
			return &answer{body: done}, nil
		},
	}
}
