package fleet

import "encoding/json"

// Auto bounds the slots of an endpoint whose concurrency is found from the time to the first token.
type Auto struct {
	// Least number of slots; at most max.
	Min int `json:"min" range:"1,10000" need:"yes"`
	// Greatest number of slots.
	Max int `json:"max" range:"1,10000" need:"yes"`

	Begin int `json:"-"` // where the search begins, from Min to Max
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
