package registration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/worker"
)

// author is the user of a worker's changes in the history.
const author = "register"

// checkColo returns an error if the colo has no document.
func (r *registry) checkColo(ctx context.Context) error {
	key := fleet.KindColo.Key(r.c.Colo)
	colos, err := r.list(ctx, string(fleet.KindColo)+"/")
	if err != nil {
		return err
	}
	var names []string
	for _, d := range colos {
		if d.Key == key {
			return nil
		}
		names = append(names, strings.TrimPrefix(d.Key, string(fleet.KindColo)+"/"))
	}
	known := "there is none yet"
	if len(names) > 0 {
		known = "there are " + strings.Join(names, ", ")
	}
	return finalError{fmt.Errorf("no colo has the name %q; %s: give -colo one of these, or create the document %s with: colonnade config apply", r.c.Colo, known, key)}
}

// checkOperators returns an error if a document that an operator has put has the worker's endpoint, or its URL, before the engine is started.
func (r *registry) checkOperators(ctx context.Context) error {
	newest, _ := r.current()
	own := newest.Worker.Engine
	if own.Endpoint == "" {
		return nil
	}
	key := fleet.KindEndpoint.Key(r.c.Colo, own.Endpoint)
	all, err := r.list(ctx, fleet.KindEndpoint.Key(r.c.Colo)+"/")
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Key == key && !d.Leased {
			return finalError{errByHand(key)}
		}
	}
	return checkURL(all, key, own.URL)
}

func errByHand(key string) error {
	return fmt.Errorf("%s was put by hand, without a lease, and stays for ever: remove it with: colonnade config delete %[1]s", key)
}

func (r *registry) list(ctx context.Context, under string) ([]etcd.Stored, error) {
	found, _, err := etcd.List(ctx, r.c.Client, etcd.DefaultPrefix, under)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("etcd at %s does not answer: %w", strings.Join(r.c.Client.Endpoints(), ","), err)
	}
	return found, err
}

// prepare makes sure that requests can reach the endpoint: no other endpoint has its URL, and its pool and models have documents.
func (r *registry) prepare(ctx context.Context, s worker.Registration) error {
	e, err := endpointOf(s.Endpoint)
	if err != nil {
		return finalError{err}
	}
	all, err := r.list(ctx, fleet.KindEndpoint.Key(r.c.Colo)+"/")
	if err != nil {
		return err
	}
	if err := checkURL(all, s.Endpoint.Key, e.URL); err != nil {
		return err
	}
	if err := checkOtherWorkers(all, s.Endpoint.Key, e.URL); err != nil {
		return err
	}
	there, err := r.models(ctx)
	if err != nil {
		return err
	}
	if err := checkPool(there, s.Models, e); err != nil {
		return finalError{err}
	}
	return r.createAmong(ctx, there, s, e.Pool)
}

// createLacking creates the documents of models that the engine lists by now.
func (r *registry) createLacking(ctx context.Context, s worker.Registration) error {
	e, err := endpointOf(s.Endpoint)
	if err != nil {
		return err
	}
	there, err := r.models(ctx)
	if err != nil {
		return err
	}
	return r.createAmong(ctx, there, s, e.Pool)
}

// createAmong creates what is lacking among the documents that there are, and logs which models the worker may not add.
func (r *registry) createAmong(ctx context.Context, there []etcd.Stored, s worker.Registration, pool string) error {
	create := lacking(there, s, pool)
	r.logRefused(there, s, keysOf(create))
	if len(create) == 0 {
		return nil
	}
	return r.create(ctx, s, pool)
}

// refusedModels returns the keys of the models that a table lacks and that are not created.
func refusedModels(t *fleet.Table, models []document.Raw, created []string) (keys []string) {
	for _, d := range models {
		name, isModel := strings.CutPrefix(d.Key, string(fleet.KindModel)+"/")
		if _, known := t.Model(name); isModel && !known && !slices.Contains(created, d.Key) {
			keys = append(keys, d.Key)
		}
	}
	return keys
}

// endpointOf returns the endpoint of a document.
func endpointOf(d document.Raw) (*fleet.Endpoint, error) {
	set := document.NewSet()
	if err := set.Put(d.Key, d.Value, 0); err != nil {
		return nil, err
	}
	if e, ok := set.Noun(d.Key).(*fleet.Endpoint); ok {
		return e, nil
	}
	return nil, fmt.Errorf("%s is not the document of an endpoint", d.Key)
}

// checkURL returns an error if an operator's document has the endpoint's URL under another key: that one would stay in force, and this one
// would not be.
func checkURL(endpoints []etcd.Stored, key, url string) error {
	for _, d := range endpoints {
		if d.Leased || d.Key == key {
			continue
		}
		if other, err := endpointOf(document.Raw{Key: d.Key, Value: d.Value}); err == nil && other.URL == url {
			return finalError{fmt.Errorf("%s has the URL %s already, and nodes keep to the first document of a URL: remove it with: colonnade config delete %s",
				d.Key, url, d.Key)}
		}
	}
	return nil
}

// checkOtherWorkers returns an error while another worker has the endpoint's URL under another key.
func checkOtherWorkers(endpoints []etcd.Stored, key, url string) error {
	for _, d := range endpoints {
		if !d.Leased || d.Key == key {
			continue
		}
		if other, err := endpointOf(document.Raw{Key: d.Key, Value: d.Value}); err == nil && other.URL == url {
			return fmt.Errorf("another worker has registered the engine at %s, as %s: stop that worker, or give this one the -url of an engine of its own", url, d.Key)
		}
	}
	return nil
}

// models returns the documents that say which models there are.
func (r *registry) models(ctx context.Context) ([]etcd.Stored, error) {
	var all []etcd.Stored
	for _, under := range []string{string(fleet.KindDefaults), string(fleet.KindPool) + "/", string(fleet.KindModel) + "/"} {
		found, err := r.list(ctx, under)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// tableOf returns the table of some documents. Of a bad model, which nodes leave out or have as it was before, it has the name, the pool and whose
// it is, so that no API key adds models to the pool of an operator's.
func tableOf(docs []etcd.Stored) *fleet.Table {
	set := document.NewSet()
	for _, d := range etcd.InCreationOrder(docs) {
		if err := d.PutInto(set); err != nil && strings.HasPrefix(d.Key, string(fleet.KindModel)+"/") {
			_ = set.Put(d.Key, ownership(d), d.Revision)
		}
	}
	return set.Table()
}

// ownership returns the document of a bad model without all other fields; an empty one if its pool is not known.
func ownership(d etcd.Stored) []byte {
	fields, _ := document.Fields(d.Key, d.Value) // none if it cannot be read
	kept := map[string]any{}
	for _, name := range []string{"pool", document.RegisteredBy} {
		if text, is := fields[name].(string); is {
			kept[name] = text
		}
	}
	value, _ := json.Marshal(kept) // of texts, so never an error
	if document.Check(d.Key, value) != nil {
		return []byte("{}")
	}
	return value
}

// poolOf is PoolOf of the [worker.Registry].
func (r *registry) poolOf(ctx context.Context, model string) (string, error) {
	there, err := r.models(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot read which pool the model %s belongs to: %w", model, err)
	}
	if m, ok := tableOf(there).Model(model); ok {
		return m.Pool, nil
	}
	return "", nil
}

// checkPool returns an error if all models of the engine belong to other pools, so that its endpoint would get no requests.
func checkPool(there []etcd.Stored, models []document.Raw, e *fleet.Endpoint) error {
	table := tableOf(there)
	var elsewhere *fleet.Model
	for _, d := range models {
		name, isModel := strings.CutPrefix(d.Key, string(fleet.KindModel)+"/")
		if !isModel {
			continue
		}
		m, ok := table.Model(name)
		if !ok || m.Pool == e.Pool {
			return nil
		}
		elsewhere = m
	}
	if elsewhere == nil {
		return nil
	}
	key := fleet.KindModel.Key(elsewhere.Name)
	return fmt.Errorf("the engine at %s serves %s, and %s names the pool %q, so an endpoint of the pool %q would get none of its requests: "+
		"give -pool %s, or change the pool of %s", e.URL, elsewhere.Name, key, elsewhere.Pool, e.Pool, elsewhere.Pool, key)
}

// lacking returns the documents of the pool, and of models, that are not there and that the worker may add.
func lacking(there []etcd.Stored, r worker.Registration, pool string) (create []document.Raw) {
	for _, d := range Additions(tableOf(there), r.Models, r.Worker.RegisteredBy) {
		is := func(s etcd.Stored) bool { return s.Key == d.Key } // perhaps a bad one
		if kind, name, _ := strings.Cut(d.Key, "/"); !slices.ContainsFunc(there, is) && (kind == string(fleet.KindModel) || name == pool) {
			create = append(create, d)
		}
	}
	return create
}

// create creates what is lacking, as one change.
func (r *registry) create(ctx context.Context, s worker.Registration, pool string) error {
	docs := change.Documents{Client: r.c.Client, Author: etcd.Author{User: author, Host: r.c.Machine, Command: "colonnade register as " + r.c.Node}}
	done, err := docs.Edit(ctx, func(_ context.Context, there []etcd.Stored) (etcd.Edit, error) {
		return etcd.Edit{Put: lacking(there, s, pool)}, nil
	})
	for _, a := range done.Applied {
		if a.Created {
			r.c.Logger.Info("created a document that the engine needs", "key", a.Key)
		}
	}
	return err
}
