package fleet

import (
	"maps"
	"slices"
)

// Table is everything that a node knows of the fleet, resolved. It is immutable, and so is everything that its methods
// return; build one with [NewTable].
type Table struct {
	Revision  int64       // of the newest change in it
	Rejected  []Rejection // sorted by key
	Conflicts []Conflict  // sorted by loser
	StoreState

	models          map[string]*Model
	aliases         map[string]*Model
	modelList       []*Model
	pools           map[string]*Pool
	poolList        []*Pool
	defaultPool     Pool // of a pool without a document
	colos           map[string]*Colo
	coloList        []*Colo
	servers         map[string][]*Server
	registered      map[string][]*Server // those whose leases have not expired
	endpoints       EndpointIndex
	accounts        AccountIndex
	defaultAccounts *defaultAccounts
	apiKeys         APIKeyIndex
	issuers         []*Issuer
	captures        []*Capture
	sinks           []*Sink
	flows           map[string]*Flow
	unusedSteps     []string // names of models
	entries         []*EntryNode
	workers         []*Worker
	origins         []string
	maxBody         Bytes // the largest of any model
	deletions       *Deletions
	limits          RateLimits
}

// StoreState is what a table knows of the store beside its documents.
type StoreState struct {
	PendingDeletions []string         // keys of documents that vanished from the store, and stay in force until that is confirmed; sorted
	HeldDeletions    []HeldDeletion   // how those of PendingDeletions vanished, in the same order
	ExpiredLeases    []string         // keys of documents whose leases expired, and that stay in force for a while; sorted
	Listed           int64            // revision of the last list of all documents: the table lacks nothing up to there
	ServersChanged   map[string]int64 // by colo, see [Table.ServersRevision]
	Staged           *StagedChange    // nil = none
}

// HeldDeletion is a deletion that is held back.
type HeldDeletion struct {
	Key      string `json:"key"`
	Revision int64  `json:"revision"`     // of the store, at which it was noticed
	By       string `json:"by,omitempty"` // author, if that is known: only changes by the command line have one
}

// Conflict is an alias, URL, colo or hash that two documents claim.
type Conflict struct {
	What   string `json:"what"` // one of the constants below
	Value  string `json:"value"`
	Winner string `json:"winner"` // key of the document that has it
	Loser  string `json:"loser"`  // key of the other
}

// The values of [Conflict.What].
const (
	ConflictAlias = "alias" // of two models
	ConflictURL   = "url"   // of two endpoints of a colo
	ConflictColo  = "colo"  // of a server that was put by hand, and one that is registered
	ConflictKey   = "key"   // two API keys with one hash
)

// Rejection is a document whose newest version is not in force.
type Rejection struct {
	Key      string `json:"key"`
	Revision int64  `json:"revision"`
	Field    string `json:"field,omitempty"`
	Reason   string `json:"reason"`
	LastGood bool   `json:"last_good"`          // an earlier version stays in force
	InForce  int64  `json:"in_force,omitempty"` // its revision
	File     string `json:"file,omitempty"`     // of a document in a file, with the line; Key is empty if the file does not say which document it is
}

// Model returns the model of that name; else the one with that alias, the lexically first if there are several.
func (t *Table) Model(name string) (*Model, bool) {
	if m, ok := t.models[name]; ok {
		return m, true
	}
	m, ok := t.aliases[name]
	return m, ok
}

// Models returns all models, sorted by name.
func (t *Table) Models() []*Model { return t.modelList }

// Flow returns the flow of the model of that name; aliases do not count.
func (t *Table) Flow(model string) (*Flow, bool) {
	f, ok := t.flows[model]
	return f, ok
}

// Pool returns the pool of that name, with the defaults if there is no document; never nil.
func (t *Table) Pool(name string) *Pool {
	if p, ok := t.pools[name]; ok {
		return p
	}
	p := t.defaultPool
	p.Name = name
	return &p
}

// Pools returns the pools that have a document, or that a model or endpoint refers to, sorted by name.
func (t *Table) Pools() []*Pool { return t.poolList }

// Colo returns the colo of that name.
func (t *Table) Colo(name string) (*Colo, bool) {
	c, ok := t.colos[name]
	return c, ok
}

// Colos returns all colos, sorted by name.
func (t *Table) Colos() []*Colo { return t.coloList }

// Servers returns the servers of a colo, sorted by node.
func (t *Table) Servers(colo string) []*Server { return t.servers[colo] }

// Registered returns the servers of a colo whose leases have not expired, and those that were put by hand, sorted by node.
func (t *Table) Registered(colo string) []*Server { return t.registered[colo] }

// ServersRevision returns the newest revision of the store at which a document of a server of the colo is known to have been put
// or deleted, by an operator, a server or the end of a lease; 0 = none is known.
func (t *Table) ServersRevision(colo string) int64 { return t.ServersChanged[colo] }

// Endpoints returns the endpoints of a pool in a colo, sorted by ID.
func (t *Table) Endpoints(colo, pool string) []*Endpoint { return t.endpoints.colos[colo].byPool[pool] }

// EndpointsOf returns all endpoints of a colo, sorted by ID.
func (t *Table) EndpointsOf(colo string) []*Endpoint { return t.endpoints.colos[colo].all }

// EndpointColos returns the names of the colos that have endpoints, sorted, also of those without a document.
func (t *Table) EndpointColos() []string { return slices.Sorted(maps.Keys(t.endpoints.colos)) }

// Account returns the account of that name.
func (t *Table) Account(name string) (*Account, bool) {
	return t.accounts.find(name)
}

// Accounts returns all accounts, sorted by name.
func (t *Table) Accounts() []*Account { return t.accounts.list }

// AccountOrDefault returns the account of that name, with the defaults if there is no document; never nil.
func (t *Table) AccountOrDefault(name string) *Account {
	if a, ok := t.accounts.find(name); ok {
		return a
	}
	return t.defaultAccounts.of(name)
}

// Limits returns the limits of all clients together.
func (t *Table) Limits() *RateLimits { return &t.limits }

// Entries returns the registered entries.
func (t *Table) Entries() []*EntryNode { return t.entries }

// Workers returns the registered workers, sorted by name.
func (t *Table) Workers() []*Worker { return t.workers }

// APIKeyByHash returns the API key with this SHA-256, also if it has expired. How long that takes depends neither on the
// number of API keys nor on how much of a hash is right beyond its first eight bytes.
func (t *Table) APIKeyByHash(sum [32]byte) (*APIKey, bool) { return t.apiKeys.find(sum) }

// Issuers returns the issuers of JWTs, in the order of their names.
func (t *Table) Issuers() []*Issuer { return t.issuers }

// Captures returns the captures of requests, in the order of their names; those whose time is over, too.
func (t *Table) Captures() []*Capture { return t.captures }

// Sinks returns the sinks of events, in the order of their names.
func (t *Table) Sinks() []*Sink { return t.sinks }

// HasAPIKeys reports whether there is any API key for requests.
func (t *Table) HasAPIKeys() bool {
	return t.hasAPIKey(func(k *APIKey) bool { return !k.ForWorkers() })
}

// HasWorkerKeys reports whether there is any API key that registers engines. It looks at all API keys.
func (t *Table) HasWorkerKeys() bool { return t.hasAPIKey((*APIKey).ForWorkers) }

func (t *Table) hasAPIKey(wanted func(*APIKey) bool) bool {
	for k := range t.apiKeys.all() {
		if wanted(k) {
			return true
		}
	}
	return false
}

// AnyOrigin in the list of origins stands for every origin, for requests with a valid API key.
const AnyOrigin = "*"

// Origins returns the origins of web pages that may send requests, as browsers send them, or AnyOrigin.
func (t *Table) Origins() []string { return t.origins }

// leastMaxBody is read even if no model exists, so that an error can name the model that the request asks for.
const leastMaxBody = 64 * KiB

// MaxBody returns the largest body that any model accepts, but at least 64 KiB.
func (t *Table) MaxBody() Bytes { return max(t.maxBody, leastMaxBody) }
