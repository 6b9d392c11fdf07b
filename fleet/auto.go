package fleet

import (
	"encoding/json"
	"strconv"
)

// Auto bounds the slots of an endpoint whose concurrency is found from how long its engine takes to the first token.
type Auto struct {
	// Least number of slots; at most max.
	Min int `json:"min" range:"1,10000" need:"yes"`
	// Greatest number of slots.
	Max int `json:"max" range:"1,10000" need:"yes"`

	Begin int `json:"-"` // from Min to Max: where the search begins
}

// autoReach is how many times the first guess the limit may be, and which part of it, where no document says.
const autoReach = 4

// check wants both bounds wherever there is one, so that every layer is good by itself and replaces both.
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
	if e.Auto != nil && e.Concurrency != saidInWord {
		return &fieldError{Field: "auto", Reason: `means something only beside "concurrency: auto"; write that, or leave auto out`}
	}
	return e.Auto.check().in("auto")
}

// settleAuto gives an endpoint whose concurrency is to be found its bounds, and takes them from any other. guess is the
// concurrency that it would have had. Where no document says, it may not fall far below that: what takes longer for
// another reason than load would look like an overload at any limit.
func (e *Endpoint) settleAuto(guess int) {
	if e.Concurrency != saidInWord {
		e.Auto = nil
		return
	}
	if e.Auto == nil {
		e.Auto = &Auto{Min: max(guess/autoReach, 1), Max: min(autoReach*guess, 10000)}
	}
	e.Auto.Begin = min(max(guess, e.Auto.Min), e.Auto.Max)
	e.Concurrency = e.Auto.Max
}

// MarshalJSON writes the endpoint as its document says it.
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
