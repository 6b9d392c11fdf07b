package document

import (
	"strconv"

	"colonnade/fleet"
)

// autoReach bounds the limit where no document does: to the first guess divided and multiplied by it.
const autoReach = 4

// checkAuto requires both bounds in a layer that has one. So each layer is valid by itself, and replaces both.
func checkAuto(a *fleet.Auto) *fieldError {
	switch {
	case a == nil:
		return nil
	case a.Min == 0:
		return &fieldError{Field: "min", Reason: "the field is required: auto has both, min and max"}
	case a.Max == 0:
		return &fieldError{Field: "max", Reason: "the field is required: auto has both, min and max"}
	case a.Min > a.Max:
		return &fieldError{Field: "min", Value: strconv.Itoa(a.Min), Reason: "must be at most max, which is " + strconv.Itoa(a.Max)}
	}
	return nil
}

// checkEndpoint checks the document of an endpoint.
func checkEndpoint(e *fleet.Endpoint) *fieldError {
	if e.Auto != nil && e.Concurrency != autoConcurrency {
		return &fieldError{Field: "auto", Reason: `accepted only beside "concurrency: auto"; write that, or leave auto out`}
	}
	if err := checkLoadAdapters(e.Engine, e); err != nil {
		return err
	}
	return checkAuto(e.Auto).in("auto")
}

// checkLoadAdapters refuses load_adapters of an engine that cannot load adapters by itself; engine is empty if another layer says it.
func checkLoadAdapters(engine string, e *fleet.Endpoint) *fieldError {
	if !e.LoadAdapters || engine == "" || fleet.MayLoadAdapters(engine) {
		return nil
	}
	return &fieldError{Field: "load_adapters", Value: "true", Reason: engine + " does not load adapters with their first request; leave the field out"}
}

// resolveAuto sets the bounds of an endpoint with concurrency: auto, and removes them from any other. guess is the
// concurrency that the endpoint would have without auto. Unless a document says so, the limit does not fall far below
// that: an engine that is slow for another reason than load would look overloaded at any limit.
func resolveAuto(e *fleet.Endpoint, guess int) {
	if e.Concurrency != autoConcurrency {
		e.Auto = nil
		return
	}
	if e.Auto == nil {
		e.Auto = &fleet.Auto{Min: max(guess/autoReach, 1), Max: min(autoReach*guess, 10000)}
	}
	e.Auto.Begin = min(max(guess, e.Auto.Min), e.Auto.Max)
	e.Concurrency = e.Auto.Max
}
