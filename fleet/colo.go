package fleet

// States of colos, endpoints, servers and entries. Colos may also be disabled.
const (
	StateActive   = "active"
	StateDraining = "draining"
)

// Protocol is the newest protocol between nodes that this version speaks, and OldestProtocol the oldest. Protocol rises
// when a field is added to [Server] or [EntryNode]: nodes of older versions then ignore the field, instead of rejecting
// the document and losing sight of the node. It also rises when nodes send each other what older versions do not read.
const (
	Protocol       = 6
	OldestProtocol = 1
)

// Colo is one location with endpoints.
type Colo struct {
	Name string `json:"-"`
	// Name of the region, by which routing steps select colos. Without positions, entries guess distances by it.
	Region string `json:"region,omitempty" is:"name"`
	// Only an active colo gets new requests. Running requests go on in any state.
	State string `json:"state" oneof:"active draining disabled"`

	// Labels by which routing steps select colos.
	Labels map[string]string `json:"labels,omitempty" keys:"name" is:"text"`
	// Place of the colo on the globe. Entries estimate their distance from it until they have measured the round trip.
	Position *Position `json:"position,omitempty"`
}

// MaxServers is the greatest number of active servers of one colo for which Colonnade is measured and tested. More of them work by the same
// rules: each says that there are too many, and none is refused, since it may replace one that is about to end.
const MaxServers = 32

// Server is a colo server as it describes itself.
type Server struct {
	Colo string `json:"-"`
	Node string `json:"-"`
	// Address of its peer listener, for entries and the other servers of its colo.
	Address string `json:"address" is:"address" need:"yes"`
	// Address of its admin listener.
	Admin string `json:"admin,omitempty" is:"address"`
	// Identifier of the process; another one at each start.
	Boot string `json:"boot" is:"text" need:"yes"`
	// A draining server finishes its requests and accepts no new ones.
	State string `json:"state,omitempty" oneof:"active draining"` // empty is written as StateActive
	// Protocols between nodes that it speaks.
	Protocol ProtocolRange `json:"protocol,omitzero"`
	// Version of its software.
	Version string `json:"version,omitempty"`
	// Address at which it gossips with the other servers of its colo.
	Gossip string `json:"gossip,omitempty" is:"address"`
	// Slots of the pools whose home the server is, and that have an engine in the colo. Default: not known.
	Pools map[string]int `json:"pools,omitzero" keys:"name" range:"0,10000000"`
}

// Bounds of the pools of one registration. A document with so many names of any length is far below the size that documents may have.
const (
	maxRegisteredPools = 256
	maxRegisteredSlots = 10_000_000 // see the tag of Server.Pools
)

// RegisteredPools returns the Pools of a registration, for the slots by pool. It returns nil, which means that the pools are not
// known, if there are more than 256: a document that is too large would be rejected as a whole.
func RegisteredPools(slots map[string]int) map[string]int {
	if len(slots) > maxRegisteredPools {
		return nil
	}
	registered := make(map[string]int, len(slots))
	for pool, n := range slots {
		registered[pool] = min(max(n, 0), maxRegisteredSlots)
	}
	return registered
}

// EntryNode is an entry as it describes itself.
type EntryNode struct {
	Node string `json:"-"`
	// Address of its public listener.
	Address string `json:"address" is:"address" need:"yes"`
	// Address of its admin listener.
	Admin string `json:"admin,omitempty" is:"address"`
	// Region of the entry.
	Region string `json:"region,omitempty" is:"name"`
	// Place of the entry on the globe.
	Position *Position `json:"position,omitempty"`
	// A draining entry finishes its requests and accepts no new ones.
	State string `json:"state,omitempty" oneof:"active draining"` // empty is written as StateActive
	// Protocols between nodes that it speaks.
	Protocol ProtocolRange `json:"protocol,omitzero"`
	// Version of its software.
	Version string `json:"version,omitempty"`
}

// ProtocolRange is the range of protocols that a node speaks; absent means 1 to 1.
type ProtocolRange struct {
	// Oldest protocol that the node speaks.
	Min int `json:"min" range:"1,1000000"`
	// Newest protocol that the node speaks. Nodes that speak only older ones ignore unknown fields of this document.
	Max int `json:"max" range:"1,1000000"`
}
