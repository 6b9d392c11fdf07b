package fleet

// States of colos and servers. Servers are never disabled.
const (
	StateActive   = "active"
	StateDraining = "draining"
	StateDisabled = "disabled"
)

// Protocol is the newest protocol between nodes that this version speaks. It rises when a field is added to [Server] or
// [EntryNode]: nodes that do not know the field yet then accept the document instead of losing sight of the node.
// OldestProtocol is the oldest that it speaks as well.
const (
	Protocol       = 2
	OldestProtocol = 1
)

// Colo is one location with endpoints.
type Colo struct {
	Name   string `json:"-"`
	Region string `json:"region,omitempty" is:"name"`
	State  string `json:"state" oneof:"active draining disabled"`

	_ struct{} `unsupported:"labels"`
	_ struct{} `unsupported:"position"`
}

// Server is a colo server as it describes itself.
type Server struct {
	Colo     string        `json:"-"`
	Node     string        `json:"-"`
	Address  string        `json:"address" is:"address" need:"yes"`         // host:port of its peer listener
	Admin    string        `json:"admin,omitempty" is:"address"`            // host:port
	Boot     string        `json:"boot" is:"word" need:"yes"`               // another one at each start
	State    string        `json:"state,omitempty" oneof:"active draining"` // StateActive, or StateDraining; empty is written as StateActive
	Protocol ProtocolRange `json:"protocol,omitzero"`
	Version  string        `json:"version,omitempty"` // of the software
}

// EntryNode is an entry as it describes itself.
type EntryNode struct {
	Node     string        `json:"-"`
	Address  string        `json:"address" is:"address" need:"yes"` // host:port of its public listener
	Admin    string        `json:"admin,omitempty" is:"address"`    // host:port
	Region   string        `json:"region,omitempty" is:"name"`
	State    string        `json:"state,omitempty" oneof:"active draining"` // StateActive, or StateDraining; empty is StateActive
	Protocol ProtocolRange `json:"protocol,omitzero"`
	Version  string        `json:"version,omitempty"` // of the software
}

// ProtocolRange is what a node speaks; absent means 1 to 1.
type ProtocolRange struct {
	Min int `json:"min" range:"1,1000000"`
	Max int `json:"max" range:"1,1000000"`
}
