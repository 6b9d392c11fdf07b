package document

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"colonnade/fleet"
)

// defaults is the defaults document. Its layers stay trees, which others are merged with.
type defaults struct {
	// Defaults of models.
	Model layer `json:"model" of:"model"`
	// Defaults of pools.
	Pool layer `json:"pool" of:"pool"`
	// Defaults of endpoints with any engine.
	Endpoint layer `json:"endpoint" of:"endpoint"`
	// Defaults of endpoints by engine. They override endpoint.
	Engines map[string]layer `json:"engines" of:"engine"`
	// Origins of web pages that may send requests, read the answers, and open realtime sessions. "*" stands for every origin, for
	// requests with a valid API key.
	Origins []string `json:"origins" is:"origin"`
}

// layer is a part of a tree.
type layer map[string]any

func (doc *parsed) checkDefaults() *fieldError {
	var all defaults
	if err := (decoder{lenient: doc.newer}).decode(doc.tree, &all); err != nil {
		return err
	}
	d := decoder{lenient: doc.newer, partial: true}
	var m fleet.Model
	if err := d.decode(all.Model, &m).in("model"); err != nil {
		return err
	}
	if err := checkModel("", &m).in("model"); err != nil {
		return err
	}
	if err := d.checkPool(all.Pool).in("pool"); err != nil {
		return err
	}
	if err := d.checkEndpointLayer("", all.Endpoint).in("endpoint"); err != nil {
		return err
	}
	for _, engine := range slices.Sorted(maps.Keys(all.Engines)) {
		if err := d.checkEngine(engine, all.Engines[engine]); err != nil {
			return err.in(fieldName(engine)).in("engines")
		}
	}
	return nil
}

func (d decoder) checkEngine(engine string, tree layer) *fieldError {
	if !slices.Contains(fleet.Engines, engine) {
		return &fieldError{Reason: "unknown engine; must be one of " + strings.Join(fleet.Engines, ", ")}
	}
	if _, present := tree["engine"]; present {
		return &fieldError{Field: "engine", Reason: fmt.Sprintf("these are the defaults of %s; leave the field out", engine)}
	}
	return d.checkEndpointLayer(engine, tree)
}

// checkEndpointLayer checks defaults of endpoints. They may have bounds for those with concurrency: auto without being
// auto themselves. engine is empty if they are not those of one engine.
func (d decoder) checkEndpointLayer(engine string, tree layer) *fieldError {
	var e fleet.Endpoint
	if err := d.decode(tree, &e); err != nil {
		return err
	}
	if err := checkLoadAdapters(cmp.Or(engine, e.Engine), &e); err != nil {
		return err
	}
	return checkAuto(e.Auto).in("auto")
}

// canonicalOrigins returns origins as browsers send them: in lower case, and without the default port.
func canonicalOrigins(origins []string) []string {
	canonical := slices.Clone(origins)
	for i, origin := range canonical {
		scheme, authority, _ := strings.Cut(strings.ToLower(origin), "://")
		switch scheme {
		case fleet.AnyOrigin:
			continue
		case "http":
			authority = strings.TrimSuffix(authority, ":80")
		case "https":
			authority = strings.TrimSuffix(authority, ":443")
		}
		canonical[i] = scheme + "://" + authority
	}
	return canonical
}
