package fleet

// Flow says how the requests for a model are spread over colos, by the region of the entry that they arrive at. A flow that
// comes from a table is shared: do not modify it.
type Flow struct {
	Model string `json:"-"`
	// Weights of colos, by the region of the entry; "*" stands for every region that the document does not name. The colos
	// of a request are drawn by weight, one after the other. Those without a weight, or with weight 0, follow by their distance.
	Regions map[string]map[string]float64 `json:"regions" keys:"region" inner:"name" range:"0,1000000" need:"yes"`
}

// AnyRegion in a flow stands for every region that the flow does not name.
const AnyRegion = "*"
