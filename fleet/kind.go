package fleet

import "strings"

// Kind is the first part of a document's key.
type Kind string

// The kinds of documents. KindDefaults, KindDeletions and KindLimits are whole keys. The keys of all others go on with a name, those of
// endpoints and servers with the name of a colo and a name.
const (
	KindDefaults  Kind = "defaults"
	KindDeletions Kind = "deletions"
	KindModel     Kind = "models"
	KindPool      Kind = "pools"
	KindColo      Kind = "colos"
	KindAccount   Kind = "accounts"
	KindAPIKey    Kind = "keys"
	KindEndpoint  Kind = "endpoints"
	KindServer    Kind = "servers"
	KindEntry     Kind = "entries"
	KindFlow      Kind = "flows"
	KindLimits    Kind = "limits"
	KindIssuer    Kind = "issuers"
	KindCapture   Kind = "captures"
	KindSink      Kind = "sinks"
	KindWorker    Kind = "workers"
)

// KindRecord begins the keys of the records of colo servers' processes. These are no documents; see package homes.
const KindRecord Kind = "owners"

// KindHistory begins the keys of the history of changes, which the command line writes with each change. These are no documents.
const KindHistory Kind = "history"

// KindStaged begins the keys of changes that one node tries before all others, under the lease of the command that tries them; the key goes
// on with that of the node's own document. These are no documents.
const KindStaged Kind = "staged"

// Key returns the key of a document of this kind: by its name, or by its colo and its name.
func (k Kind) Key(names ...string) string { return string(k) + "/" + strings.Join(names, "/") }

// OfNode reports whether documents of this kind are written by the processes that they describe, with a lease.
func (k Kind) OfNode() bool { return k == KindServer || k == KindEntry || k == KindWorker }
