package api

import (
	"fmt"
	"slices"
	"strings"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/worker/wire"
)

// latestTag ends the names of models of which Ollama serves the name without it, too.
const latestTag = ":latest"

// restrict refuses what an API key with the role worker may not register, and marks the documents with the key. A holder of such a key runs
// engines and is no operator: it gets no credential of the colo, and changes nothing of the models, pools and engines of others.
func (r *Registration) restrict() error {
	if r.APIKey == nil {
		return nil
	}
	r.Worker.RegisteredBy = r.APIKey.Mark()
	for i, d := range r.Documents {
		marked, err := d.SetField(document.RegisteredBy, r.Worker.RegisteredBy)
		if err != nil {
			return err
		}
		r.Documents[i] = marked
	}
	if err := r.restrictEndpoint(); err != nil {
		return err
	}
	if len(r.Models) > 0 && r.Endpoint == nil {
		return errBadRequest("models", "models: an API key with the role worker registers models only together with the endpoint that serves them")
	}
	for i := range r.Models {
		if err := r.restrictModel(i); err != nil {
			return err
		}
	}
	return nil
}

// restrictEndpoint refuses what would have a colo server send a credential to a URL of the worker's choice. Servers that know no registered_by
// reject a document with it, and a newer version would have them accept it.
func (r *Registration) restrictEndpoint() error {
	if r.Endpoint == nil {
		return nil
	}
	if r.Endpoint.Credential != "" {
		return errBadRequest("endpoint.credential", "endpoint.credential: an API key with the role worker names no credentials of the colo server; "+
			"register with a token of an operator, or put the document "+r.Documents[1].Key+" without colonnade register")
	}
	if fields, _ := document.Fields(r.Documents[1].Key, r.Documents[1].Value); fields["version"] != nil {
		return errBadRequest("endpoint.version", "endpoint.version: an API key with the role worker sets no version of a document; leave the field out")
	}
	return nil
}

// restrictModel checks and marks one document of a model or a pool. A model belongs to the pool of the endpoint, whatever the defaults say.
func (r *Registration) restrictModel(i int) error {
	d, at := r.Models[i], fmt.Sprintf("models[%d]", i)
	kind, name, _ := strings.Cut(d.Key, "/")
	if err := checkFields(at, d, wire.Fields(fleet.Kind(kind))); err != nil {
		return err
	}
	if kind == string(fleet.KindPool) {
		if name != r.Endpoint.Pool {
			return errBadRequest(at+".key", fmt.Sprintf("%s.key: is %s, and the endpoint belongs to the pool %s: an API key with the role worker registers no other pool", at, d.Key, r.Endpoint.Pool))
		}
		return nil
	}
	m, err := modelOf(d)
	if err != nil {
		return err
	}
	if m.Pool != r.Endpoint.Pool {
		return errBadRequest(at+".pool", fmt.Sprintf("%s.pool: is %s, and the endpoint belongs to the pool %s: an API key with the role worker registers models of that pool only",
			at, m.Pool, r.Endpoint.Pool))
	}
	for _, alias := range m.Aliases {
		if alias+latestTag != name {
			return errBadRequest(at+".aliases", fmt.Sprintf("%s.aliases: an API key with the role worker gives the model %s no other name than this one without %s", at, name, latestTag))
		}
	}
	marked, err := d.SetField("pool", m.Pool)
	if err == nil {
		marked, err = marked.SetField(document.RegisteredBy, r.Worker.RegisteredBy)
	}
	r.Models[i] = marked
	return err
}

// checkFields refuses fields of a document that are not among some.
func checkFields(at string, d document.Raw, allowed []string) error {
	fields, err := document.Fields(d.Key, d.Value)
	if err != nil {
		return errBadRequest(at, at+": "+err.Error())
	}
	for name := range fields {
		if !slices.Contains(allowed, name) {
			return errBadRequest(at+"."+name, fmt.Sprintf("%s.%s: an API key with the role worker sets only %s of %s: an operator may put the document with colonnade config apply",
				at, name, strings.Join(allowed, ", "), d.Key))
		}
	}
	return nil
}

// modelOf returns the model of a document, without the defaults.
func modelOf(d document.Raw) (*fleet.Model, error) {
	set := document.NewSet()
	if err := set.Put(d.Key, d.Value, 1); err != nil {
		return nil, err
	}
	if m, is := set.Noun(d.Key).(*fleet.Model); is {
		return m, nil
	}
	return nil, errBadRequest("models", "models: "+d.Key+" cannot be resolved")
}

// checkUnmarked refuses documents that name an API key themselves: this server says by which one they were registered.
func (r *Registration) checkUnmarked() error {
	refuse := func(at string) error {
		return errBadRequest(at+"."+document.RegisteredBy, fmt.Sprintf("%s.%s: is written by the server that takes the registration; leave the field out", at, document.RegisteredBy))
	}
	if r.Worker.RegisteredBy != "" {
		return refuse("worker")
	}
	if r.Endpoint != nil && r.Endpoint.RegisteredBy != "" {
		return refuse("endpoint")
	}
	for i, d := range r.Models {
		if fields, _ := document.Fields(d.Key, d.Value); fields[document.RegisteredBy] != nil {
			return refuse(fmt.Sprintf("models[%d]", i))
		}
	}
	return nil
}
