package engines

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// Documents returns the documents of a colo with these engines: colos/, pools/, endpoints/ and models/, each valid by itself and together.
// They have comments about what was found and what was assumed, so that document.JoinFile makes a file of them that a person can
// read. found is in the order of the URLs, with nil for engines that are not up yet; engines without models have no
// documents. The error, of errors.Join, has one error for each two engines that do not go together.
func Documents(colo string, found []*Engine) ([]document.Raw, error) {
	serving := slices.DeleteFunc(slices.Clone(found), func(e *Engine) bool { return e == nil || len(e.Models) == 0 })
	if err := checkTogether(serving); err != nil {
		return nil, err
	}
	docs := []document.Raw{writeColo(colo)}
	names := modelNames(serving)
	defaultModel := defaultOf(found, names)
	for _, p := range poolsOf(serving) {
		docs = append(docs, writePool(p))
		for _, e := range p.engines {
			docs = append(docs, writeEndpoint(colo, p.name, e))
		}
		for _, m := range p.engines[0].Models {
			docs = append(docs, writeModel(p, m, aliases(m, p.engines, names, defaultModel)))
		}
	}
	var bad []error
	for _, d := range docs {
		if err := document.Check(d.Key, d.Value); err != nil {
			bad = append(bad, fmt.Errorf("cannot describe what was found: %w", err))
		}
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return docs, nil
}

// pool is a pool of engines that serve the same models.
type pool struct {
	name    string
	engines []*Engine // at least one
	lasting bool      // the documents of its models outlive its engines, so they do not have what other engines may say otherwise
}

// poolsOf returns the pools in the order of their first engines.
func poolsOf(serving []*Engine) []pool {
	var pools []pool
	at := map[string]int{} // by the names of the models
	for _, e := range serving {
		set := setOf(e)
		i, known := at[set]
		if !known {
			i = len(pools)
			at[set] = i
			pools = append(pools, pool{name: poolName(e)})
		}
		pools[i].engines = append(pools[i].engines, e)
	}
	return pools
}

// setOf returns the names of an engine's models in one text. No name has a line break.
func setOf(e *Engine) string { return strings.Join(sortedNames(e), "\n") }

func sortedNames(e *Engine) []string {
	names := make([]string, 0, len(e.Models))
	for _, m := range e.Models {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

func poolName(first *Engine) string {
	if bases := first.bases(); len(bases) == 1 {
		return bases[0].Name
	}
	name := first.Kind + "-" + endpointID(first.URL)
	return name[:min(len(name), maxName)]
}

func modelNames(serving []*Engine) map[string]bool {
	names := map[string]bool{}
	for _, e := range serving {
		for _, m := range e.Models {
			names[m.Name] = true
		}
	}
	return names
}

const aliasDefault = "default"

// defaultOf returns the name of the model that is called default as well; "" if there is none. It depends on the first URL alone, so
// that an engine that comes up later does not take the alias away.
func defaultOf(found []*Engine, names map[string]bool) string {
	if len(found) == 0 || found[0] == nil || names[aliasDefault] {
		return ""
	}
	if bases := found[0].bases(); len(bases) == 1 && bases[0].Type == fleet.TypeChat {
		return bases[0].Name
	}
	return ""
}

// latestTag ends the names of models that Ollama serves under the name without it, too.
const latestTag = ":latest"

func aliases(m Model, engines []*Engine, names map[string]bool, defaultModel string) []string {
	var out []string
	if m.Name == defaultModel {
		out = append(out, aliasDefault)
	}
	short, latest := strings.CutSuffix(m.Name, latestTag)
	ollama := !slices.ContainsFunc(engines, func(e *Engine) bool { return e.Kind != "ollama" })
	if latest && ollama && validName(short) && !names[short] && short != aliasDefault {
		out = append(out, short)
	}
	return out
}

// checkTogether returns an error for each two engines that claim one model and are not alike to a client.
func checkTogether(serving []*Engine) error {
	var found []error
	for i, e := range serving {
		for _, other := range serving[:i] {
			if err := checkPair(other, e); err != nil {
				found = append(found, err)
			}
		}
	}
	return errors.Join(found...)
}

func checkPair(a, b *Engine) error {
	if a.URL == b.URL {
		return fmt.Errorf("the URL %s is given twice: give it once", a.URL)
	}
	common := ""
	for _, m := range a.Models {
		same := b.model(m.Name)
		if same == nil {
			continue
		}
		common = cmp.Or(common, m.Name)
		both := fmt.Sprintf("%s and %s both serve the model %s", a.URL, b.URL, m.Name)
		if m.Type != same.Type {
			return fmt.Errorf("%s, with type %s and type %s: a request may go to either, so stop one of them, or serve its model under another name",
				both, m.Type, same.Type)
		}
		if m.MaxModelLen != same.MaxModelLen && m.MaxModelLen > 0 && same.MaxModelLen > 0 {
			return fmt.Errorf("%s, with different limits: max_model_len %d and %d: a request may go to either, so start both with the same limit, "+
				"or serve the model under another name on one of them", both, m.MaxModelLen, same.MaxModelLen)
		}
	}
	if common == "" || setOf(a) == setOf(b) {
		return nil
	}
	return fmt.Errorf("%s and %s both serve the model %s, but %s: an engine belongs to one pool, whose engines all serve the same models, "+
		"so let both serve the same models, or serve %s on one of them only", a.URL, b.URL, common, difference(a, b), common)
}

// difference says which models only one of two engines serves.
func difference(a, b *Engine) string {
	var parts []string
	for _, pair := range [][2]*Engine{{a, b}, {b, a}} {
		var only []string
		for _, name := range sortedNames(pair[0]) {
			if pair[1].model(name) == nil {
				only = append(only, name)
			}
		}
		if len(only) > 0 {
			parts = append(parts, "only "+pair[0].URL+" serves "+fewOf(only))
		}
	}
	return strings.Join(parts, " and ")
}

// fewOf lists names, at most three of them.
func fewOf(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
