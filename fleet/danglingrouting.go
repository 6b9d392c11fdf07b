package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// routing adds what the routing of a model names that is not there.
func (d *dangling) routing(key string, m *Model) {
	algorithm := m.Routing.Algorithm
	if slices.Contains(d.table.unusedSteps, m.Name) {
		d.add(key, "routing.algorithm", algorithm, KindModel, "routing.steps has no effect with this algorithm; take it out, or write algorithm: steps")
	}
	if _, ok := d.table.Flow(m.Name); !ok && algorithm == AlgorithmFlow {
		d.add(key, "routing.algorithm", algorithm, KindFlow, "there is no document "+KindFlow.Key(m.Name)+", so colos are tried by their distance")
	}
	if algorithm != AlgorithmSteps {
		return
	}
	if len(m.Routing.Steps) == 0 {
		d.add(key, "routing.steps", "[]", KindModel, "without a step, no request is sent to any colo")
	}
	for i := range m.Routing.Steps {
		d.step(key, fmt.Sprintf("routing.steps[%d]", i), &m.Routing.Steps[i])
	}
}

// step adds each name in a step that leads nowhere; if all are there, the step as a whole if no colo meets it.
func (d *dangling) step(key, field string, s *Step) {
	before := len(d.found)
	d.colosOf(key, field+".colos", s.Colos)
	for _, region := range s.Regions {
		if !d.regions[region] {
			d.add(key, field+".regions", region, KindColo, "no colo is in this region"+listed(slices.Collect(maps.Keys(d.regions))))
		}
	}
	for _, label := range slices.Sorted(maps.Keys(s.Labels)) {
		d.label(key, field+".labels", label, s.Labels[label])
	}
	weighted := slices.Sorted(maps.Keys(s.Weights))
	d.colosOf(key, field+".weights", weighted)
	if len(d.found) > before || len(d.table.coloList) == 0 {
		return
	}
	if !slices.ContainsFunc(d.table.coloList, s.Selects) {
		d.add(key, field, s.selection(), KindColo, "no colo meets all of this, so the step has no effect")
		return
	}
	for _, name := range weighted {
		if c, _ := d.table.Colo(name); !s.Selects(c) {
			d.add(key, field+".weights", name, KindColo, "the step does not select this colo; it selects by "+s.selection())
		}
	}
}

func (d *dangling) colosOf(key, field string, names []string) {
	for _, name := range names {
		if _, ok := d.table.Colo(name); !ok {
			all := make([]string, 0, len(d.table.coloList))
			for _, c := range d.table.coloList {
				all = append(all, c.Name)
			}
			d.add(key, field, name, KindColo, "there is no colo of this name"+listed(all))
		}
	}
}

func (d *dangling) label(key, field, label, value string) {
	values := map[string]bool{}
	for _, c := range d.table.coloList {
		if v, ok := c.Labels[label]; ok {
			values[v] = true
		}
	}
	if !values[value] {
		d.add(key, field+"."+label, value, KindColo, "no colo has this label"+listed(slices.Collect(maps.Keys(values))))
	}
}

// flows adds flows without a model that goes by them, and the colos and regions in flows that are not there.
func (d *dangling) flows() {
	regions := maps.Clone(d.regions)
	for _, e := range d.table.entries {
		if e.Region != "" {
			regions[e.Region] = true
		}
	}
	for _, model := range slices.Sorted(maps.Keys(d.table.flows)) {
		key, flow := KindFlow.Key(model), d.table.flows[model]
		if m, ok := d.table.models[model]; !ok {
			d.add(key, "", model, KindModel, "there is no document "+KindModel.Key(model)+" (aliases do not count here), so the flow has no effect")
		} else if m.Routing.Algorithm != AlgorithmFlow {
			d.add(key, "", model, KindModel, fmt.Sprintf("%s has routing.algorithm: %s, so the flow has no effect; it needs algorithm: flow",
				KindModel.Key(model), m.Routing.Algorithm))
		}
		for _, region := range slices.Sorted(maps.Keys(flow.Regions)) {
			if region != AnyRegion && !regions[region] {
				d.add(key, "regions", region, KindColo, "no entry and no colo is in this region"+listed(slices.Collect(maps.Keys(regions))))
			}
			d.colosOf(key, "regions."+region, slices.Sorted(maps.Keys(flow.Regions[region])))
		}
	}
}

// maxListed is how many names a reason lists.
const maxListed = 8

// listed returns the end of a reason with the names that are there.
func listed(names []string) string {
	if len(names) == 0 {
		return "; there is none"
	}
	slices.Sort(names)
	first := strings.Join(names[:min(len(names), maxListed)], ", ")
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("; there are: %s and %d more", first, more)
	}
	return "; there are: " + first
}
