package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/worker/wire"
)

// Registrar keeps the documents of engines that workers register. Without its functions, the process registers none.
type Registrar struct {
	// Key finds an API key. The error is one of package accounts if it is not valid, or says that the store does not answer.
	Key func(ctx context.Context, key string) (*fleet.APIKey, error)
	// Put takes or renews a registration, until [wire.TTL] has passed.
	Put func(ctx context.Context, r *Registration) (wire.Answer, error)
	// Remove ends a registration; an empty boot is that of any process. A key ends only what was registered by it; nil = a token of an operator.
	Remove func(ctx context.Context, node, boot string, key *fleet.APIKey) error
	// PoolOf returns the pool that the document of a model names; empty if there is no such document.
	PoolOf func(model string) string
}

// Registration is an engine that a worker registers. It is valid by itself.
type Registration struct {
	By     string        // name of the token or of the API key
	APIKey *fleet.APIKey // that authorised it; nil = a token of an operator

	Worker    fleet.Worker
	Documents []document.Raw  // workers/<node>, and the endpoint's if there is one
	Endpoint  *fleet.Endpoint // nil while the engine has not answered
	Models    []document.Raw  // models/… and pools/…, to create where there are none
}

func (a *api) registrationRoutes() []route {
	const path, tag = "/registrations/{node}", "registrations"
	return []route{{
		id: "getPoolOfModel", method: http.MethodGet, path: "/registrations", tag: tag, workers: true, summary: "The pool that the engines of a model belong to",
		query:   []parameter{{"model", "Name of the model.", schema{"type": "string"}}},
		answers: []result{{status: http.StatusOK, content: asJSON("The pool.", ref("PoolOfModel"))}},
		errors:  []int{http.StatusForbidden, http.StatusNotImplemented},
		handle:  a.getPoolOfModel,
	}, {
		id: "putRegistration", method: http.MethodPut, path: path, tag: tag, workers: true, maxBody: wire.MaxBody,
		summary: "Register an engine, or renew that",
		description: "For colonnade register, by an API key with the role worker or a token of an operator. The registration ends unless it is renewed within ttl_seconds. " +
			"Colo servers and processes that serve one place take registrations for their colo.",
		body:    &content{"The worker and its engine.", map[string]schema{typeJSON: ref("Registration")}},
		answers: []result{{status: http.StatusOK, content: asJSON("The registration stands.", ref("Registered"))}},
		errors:  []int{http.StatusForbidden, http.StatusConflict, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge, http.StatusNotImplemented},
		handle:  a.putRegistration,
	}, {
		id: "deleteRegistration", method: http.MethodDelete, path: path, tag: tag, workers: true, summary: "End the registration of an engine",
		description: "Its documents are deleted, but those of models and pools. To end one that does not exist changes nothing.",
		query:       []parameter{{"boot", "Only if the registration is of this process. Required with an API key.", schema{"type": "string"}}},
		answers:     []result{{status: http.StatusNoContent, content: content{description: "There is no such registration any more."}}},
		errors:      []int{http.StatusForbidden, http.StatusConflict, http.StatusNotImplemented},
		handle:      a.deleteRegistration,
	}}
}

func registrationSchema() schema {
	one := object("A document as its text.", "key", text("Key of the document."), "text", text("The document, as YAML or JSON."))
	s := object("A worker and its engine.",
		"worker", schema{"type": "object", "description": "The document workers/<node>."},
		"endpoint?", one, "models?", array(one))
	s["additionalProperties"] = false
	return s
}

func registeredSchema() schema {
	return object("A registration that stands.",
		"node", text("Node that answers."), "colo", text("Colo of that node."),
		"ttl_seconds", schema{"type": "number", "description": "Time after which the registration ends unless it is renewed."},
		"stored", schema{"type": "boolean", "description": "Whether the documents stand where the servers of the colo see them."},
		"reason?", text("Why they do not."),
		"in_flight", schema{"type": "integer", "description": "Requests that servers of the colo may still have on the engine, or more."})
}

func poolOfModelSchema() schema {
	return object("The pool of a model.", "model", text("Name of the model."), "pool", text("Pool that its document names; empty if there is no such document."))
}

var errNoRegistrar = &Error{Status: http.StatusNotImplemented,
	Message: "this node registers no engines: send registrations to the admin listener of a colo server, or of colonnade serve"}

func (a *api) getPoolOfModel(c *call) (*answer, error) {
	if a.Registrar.PoolOf == nil {
		return nil, errNoRegistrar
	}
	model := c.URL.Query().Get("model")
	if err := checkName("model", fleet.KindModel.Key(model)); err != nil {
		return nil, err
	}
	return &answer{body: wire.PoolOfModel{Model: model, Pool: a.Registrar.PoolOf(model)}}, nil
}

func (a *api) putRegistration(c *call) (*answer, error) {
	if a.Registrar.Put == nil {
		return nil, errNoRegistrar
	}
	r, err := readRegistration(c)
	if err != nil {
		return nil, err
	}
	done, err := a.Registrar.Put(c.Context(), r)
	return &answer{body: done}, err
}

func (a *api) deleteRegistration(c *call) (*answer, error) {
	if a.Registrar.Remove == nil {
		return nil, errNoRegistrar
	}
	node := c.PathValue("node")
	if err := document.CheckKey(fleet.KindWorker.Key(node)); err != nil {
		return nil, err
	}
	boot := c.URL.Query().Get("boot")
	if boot == "" && c.apiKey != nil { // of all workers, perhaps
		return nil, errBadRequest("boot", "boot: is required with an API key, which ends the registrations of its own processes alone: worker.boot of the PUT")
	}
	return &answer{status: http.StatusNoContent}, a.Registrar.Remove(c.Context(), node, boot, c.apiKey)
}

// authorizeWorker decides by an API key whether a request may be carried out: a key with the role worker registers engines, and does nothing else.
// known reports whether there is such a key.
func (a *api) authorizeWorker(c *call, token string, r *route) (known bool, err error) {
	if a.Registrar.Key == nil || accounts.KeyID(token) == "" {
		return false, nil
	}
	key, err := a.Registrar.Key(c.Context(), token)
	switch {
	case errors.Is(err, accounts.ErrExpiredKey):
		return true, &Error{Status: http.StatusUnauthorized, Message: "this API key has expired: make another one with colonnade keys create -role worker"}
	case errors.Is(err, accounts.ErrBadKey), errors.Is(err, accounts.ErrNoKey):
		return false, nil
	case err != nil:
		return true, &Error{Status: http.StatusServiceUnavailable, Message: "cannot look the API key up; try again: " + err.Error()}
	case !key.ForWorkers():
		return true, &Error{Status: http.StatusForbidden, Message: fmt.Sprintf(
			"the API key %s is for requests of the account %s, and not for the admin API; make one that registers engines with colonnade keys create -role worker", key.ID, key.Account)}
	case r == nil || !r.workers:
		return true, &Error{Status: http.StatusForbidden, Message: fmt.Sprintf(
			"the API key %s has the role worker, and may do nothing but register engines at %s<node>", key.ID, wire.Path)}
	}
	c.user, c.apiKey = "key "+key.ID, key
	return true, nil
}

// readRegistration reads the body of a PUT, and checks all documents in it.
func readRegistration(c *call) (*Registration, error) {
	var body wire.Request
	if err := c.readJSON(&body); err != nil {
		return nil, err
	}
	r := &Registration{By: c.user, APIKey: c.apiKey}
	if err := r.takeWorker(c.PathValue("node"), body.Worker); err != nil {
		return nil, err
	}
	if body.Endpoint != nil {
		if err := r.takeEndpoint(body.Endpoint.Raw()); err != nil {
			return nil, err
		}
	}
	if err := r.takeModels(body.Models); err != nil {
		return nil, err
	}
	if err := r.checkUnmarked(); err != nil {
		return nil, err
	}
	return r, r.restrict()
}

func (r *Registration) takeWorker(node string, value json.RawMessage) error {
	key := fleet.KindWorker.Key(node)
	if len(bytes.TrimSpace(value)) == 0 {
		return errBadRequest("worker", "worker: is required: the document "+key)
	}
	if err := check("worker", document.Raw{Key: key, Value: value}); err != nil {
		return err
	}
	if err := json.Unmarshal(value, &r.Worker); err != nil {
		return errBadRequest("worker", "worker: "+err.Error())
	}
	if n := len(r.Worker.Incidents); n > fleet.MaxIncidents {
		return errBadRequest("worker.incidents", fmt.Sprintf("worker.incidents: has %d incidents: the last %d are enough", n, fleet.MaxIncidents))
	}
	r.Worker.Node = node
	r.Documents = append(r.Documents, document.Raw{Key: key, Value: value})
	return nil
}

func (r *Registration) takeEndpoint(doc document.Raw) error {
	want := fleet.KindEndpoint.Key(r.Worker.Colo, r.Worker.Engine.Endpoint)
	if doc.Key != want {
		return errBadRequest("endpoint.key", fmt.Sprintf("endpoint.key: is %.200q, and by worker.colo and worker.engine.endpoint it must be %s", doc.Key, want))
	}
	if err := check("endpoint", doc); err != nil {
		return err
	}
	set := document.NewSet()
	if err := set.Put(doc.Key, doc.Value, 1); err != nil {
		return err
	}
	found, is := set.Noun(doc.Key).(*fleet.Endpoint)
	if !is {
		return errBadRequest("endpoint", "endpoint: "+doc.Key+" cannot be resolved")
	}
	r.Endpoint = found
	r.Documents = append(r.Documents, doc)
	return nil
}

func (r *Registration) takeModels(models []wire.Document) error {
	if len(models) > wire.MaxModels {
		return errBadRequest("models", fmt.Sprintf("models: has %d documents, and may have %d", len(models), wire.MaxModels))
	}
	for i, m := range models {
		field := fmt.Sprintf("models[%d]", i)
		kind, _, _ := strings.Cut(m.Key, "/")
		if kind != string(fleet.KindModel) && kind != string(fleet.KindPool) {
			return errBadRequest(field+".key", fmt.Sprintf("%s.key: is %.200q, and must be models/<model> or pools/<pool>", field, m.Key))
		}
		if err := check(field, m.Raw()); err != nil {
			return err
		}
		r.Models = append(r.Models, m.Raw())
	}
	return nil
}

// check checks a document in a field of the body.
func check(field string, doc document.Raw) error {
	var invalid *document.InvalidError
	if errors.As(document.Check(doc.Key, doc.Value), &invalid) {
		at := field
		if invalid.Field != "" {
			at += "." + invalid.Field
		}
		return errBadRequest(at, field+": "+invalid.Error())
	}
	return nil
}
