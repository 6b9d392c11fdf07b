package fleet

import (
	"encoding/json"
	"strconv"
)

// Auto bounds the slots of an endpoint whose concurrency is found from the time to the first token.
type Auto struct {
	// Least number of slots; at most max.
	Min int `json:"min" range:"1,10000" need:"yes"`
	// Greatest number of slots.
	Max int `json:"max" range:"1,10000" need:"yes"`

	Begin int `json:"-"` // where the search begins, from Min to Max
}

// autoReach bounds the limit where no document does: to the first guess divided and multiplied by it.
const autoReach = 4

// check requires both bounds in a layer that has one. So each layer is valid by itself, and replaces both.
func (a *Auto) check() *fieldError {
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

// checkAuto checks an endpoint's own document.
func (e *Endpoint) checkAuto() *fieldError {
	if e.Auto != nil && e.Concurrency != autoConcurrency {
		return &fieldError{Field: "auto", Reason: `accepted only beside "concurrency: auto"; write that, or leave auto out`}
	}
	return e.Auto.check().in("auto")
}

// resolveAuto sets the bounds of an endpoint with concurrency: auto, and removes them from any other. guess is the
// concurrency that the endpoint would have without auto. Unless a document says so, the limit does not fall far below
// that: an engine that is slow for another reason than load would look overloaded at any limit.
func (e *Endpoint) resolveAuto(guess int) {
	if e.Concurrency != autoConcurrency {
		e.Auto = nil
		return
	}
	if e.Auto == nil {
		e.Auto = &Auto{Min: max(guess/autoReach, 1), Max: min(autoReach*guess, 10000)}
	}
	e.Auto.Begin = min(max(guess, e.Auto.Min), e.Auto.Max)
	e.Concurrency = e.Auto.Max
}

// MarshalJSON writes the endpoint as its document does.
func (e Endpoint) MarshalJSON() ([]byte, error) {
	type plain Endpoint
	if e.Auto == nil {
		return json.Marshal(plain(e))
	}
	return json.Marshal(struct {
		plain
		Concurrency string `json:"concurrency"`
	}{plain(e), "auto"})
}
