package document

import (
	"maps"
	"slices"

	"colonnade/fleet"
)

// checkRouting checks the steps of a model, or of the defaults of models. A layer replaces all steps, so that each step is checked
// with all of its fields.
func checkRouting(r *fleet.Routing) *fieldError {
	for i := range r.Steps {
		if err := checkWeights(&r.Steps[i]); err != nil {
			return err.in("weights").at(i).in("steps").in("routing")
		}
	}
	return nil
}

func checkWeights(s *fleet.Step) *fieldError {
	switch {
	case s.Pick != fleet.PickWeighted && s.Weights != nil:
		return &fieldError{Value: "a map", Reason: `accepted only beside "pick: weighted"; write that, or leave weights out`}
	case s.Pick == fleet.PickWeighted && s.Weights == nil:
		return &fieldError{Reason: `the field is required beside "pick: weighted": a map of colos to their weights`}
	case s.Pick == fleet.PickWeighted && !someWeight(s.Weights):
		return &fieldError{Value: "a map", Reason: "at least one weight must be above 0"}
	}
	return nil
}

func someWeight(weights map[string]float64) bool {
	for _, weight := range weights {
		if weight > 0 {
			return true
		}
	}
	return false
}

func checkFlow(f *fleet.Flow) *fieldError {
	if len(f.Regions) == 0 {
		return &fieldError{Field: "regions", Value: "a map", Reason: `must have at least one region of entries, or "*" for every region`}
	}
	for _, region := range slices.Sorted(maps.Keys(f.Regions)) {
		if !someWeight(f.Regions[region]) {
			err := &fieldError{Value: "a map", Reason: "at least one weight must be above 0; leave the region out to have its colos tried by distance"}
			return err.in(fieldName(region)).in("regions")
		}
	}
	return nil
}

// ignoresSteps reports whether the document of a model has steps, and m, which was made of it and the layers below, an algorithm that
// has no use for them.
func ignoresSteps(tree map[string]any, m *fleet.Model) bool {
	routing, _ := tree["routing"].(map[string]any)
	steps, _ := routing["steps"].([]any)
	return len(steps) > 0 && m.Routing.Algorithm != fleet.AlgorithmSteps
}
