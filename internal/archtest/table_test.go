package archtest

// row says what the code of one package may import. The standard library is free.
type row struct {
	path  string   // relative to the repository; a trailing /... means whatever is below
	ours  []string // packages of the repository; "*": all but those of never
	never []string
	third []string // path prefixes of third-party packages
	why   string
}

// Third-party packages that go together.
var (
	etcdClient = []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3", "google.golang.org/grpc", "go.uber.org/zap"}
	etcdServer = []string{"go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/client/v3", "go.uber.org/zap"}
	metrics    = []string{"github.com/prometheus/client_golang"}
	wire       = []string{"github.com/valyala/fasthttp"}
	errgroup   = []string{"golang.org/x/sync"}

	commandLine = []string{"github.com/urfave/cli/v3"}
)

var table = []row{
	{path: "fleet",
		why: "the nouns depend on nothing, so that everything can depend on them"},
	{path: "fleet/document", ours: []string{"fleet"}, third: []string{"go.yaml.in/yaml/v2"},
		why: "documents are read and checked without knowing where they come from"},
	{path: "internal/ascii",
		why: "bytes of ASCII, for every parser"},
	{path: "openai", ours: []string{"internal/ascii"},
		why: "the wire dialect is pure, so that it can be fuzzed and reused by both servers"},
	{path: "fairqueue",
		why: "order is decided without locks, clocks or knowledge of what waits"},
	{path: "permits", ours: []string{"fairqueue"},
		why: "who may run knows nothing of documents or transport"},
	{path: "homes", ours: []string{"fleet"},
		why: "who is whose home is a pure function of the fleet"},
	{path: "routing", ours: []string{"fleet"},
		why: "a plan is a pure function of the table and what is known"},
	{path: "accounts", ours: []string{"fleet"},
		why: "who asks is answered by the table alone"},
	{path: "analytics",
		why: "an event is a value; no other package's types are needed to describe what happened"},
	{path: "analytics/journal", ours: []string{"analytics"},
		why: "events on disk need no more than the event"},
	{path: "analytics/metrics", ours: []string{"analytics", "analytics/journal", "permits", "fleet"}, third: metrics,
		why: "collectors read values and functions that the node hands over"},
	{path: "admission", ours: []string{"permits", "homes", "fleet"},
		why: "no transport in here, so that other front ends can ask for permits too"},
	{path: "discovery/etcd", ours: []string{"fleet", "fleet/document", "homes"}, third: append(append([]string{}, etcdClient...), errgroup...),
		why: "it fills the table; whoever reads the table must not know from where"},
	{path: "discovery/gossip", ours: []string{"fleet", "homes"}, third: []string{"github.com/hashicorp/memberlist"},
		why: "it carries liveness and hints; whoever reads them must not know from where"},
	{path: "forwarding",
		why: "the roof over the packages that carry a request one hop: it has no code"},
	{path: "forwarding/hop",
		why: "what one node says to the next is pure data, signed and parsed"},
	{path: "forwarding/netconn",
		why: "connections know nothing of what they carry"},
	{path: "forwarding/reload",
		why: "files that are read again, whatever they hold"},
	{path: "forwarding/peertls", ours: []string{"forwarding/reload"},
		why: "who a node is knows nothing of requests"},
	{path: "forwarding/httpguard", ours: []string{"openai", "internal/ascii"},
		why: "strict HTTP is pure, so that it can be fuzzed"},
	{path: "forwarding/transport", ours: []string{"forwarding/hop", "forwarding/netconn", "forwarding/peertls", "openai"},
		third: []string{"golang.org/x/net/http/httpguts"},
		why:   "one attempt at one server; it decides nothing"},
	{path: "forwarding/server", ours: []string{"forwarding/hop", "forwarding/httpguard", "forwarding/netconn", "forwarding/peertls", "openai"},
		third: append([]string{"golang.org/x/sys/unix"}, wire...),
		why:   "a listener made strict; it knows nothing of where requests go"},
	{path: "forwarding/relay", ours: []string{"forwarding/hop", "forwarding/netconn", "forwarding/server", "forwarding/transport", "openai"},
		third: append([]string{"golang.org/x/net/http/httpguts"}, wire...),
		why:   "an answer on its way to the client: it joins a transport's response to a server's client"},
	{path: "forwarding/realtime", ours: []string{"forwarding/netconn", "forwarding/relay", "forwarding/server", "forwarding/transport", "openai"},
		third: []string{"github.com/gorilla/websocket"},
		why:   "a WebSocket between two connections that were taken over; no HTTP any more"},
	{path: "entry", ours: []string{"routing", "forwarding/...", "internal/ascii", "accounts", "openai", "homes", "fleet", "analytics", "analytics/journal", "analytics/metrics"}, third: wire,
		why: "the edge grants no permits and reads no store"},
	{path: "colo", ours: []string{"admission", "permits", "forwarding/...", "openai", "fleet", "analytics", "analytics/journal", "analytics/metrics"}, third: wire,
		why: "a colo asks for permits through admission, and trusts what the hop token says of the account"},
	{path: "admin", ours: []string{"*"}, never: []string{"entry", "colo", "cmd/...", "onebox"}, third: metrics,
		why: "the admin listener is given functions; it must not reach into the life of a request"},
	{path: "bench", ours: []string{"fleet", "internal/simengine"}, third: []string{"gonum.org/v1/plot"},
		why: "load comes from outside, as clients send it, to gateways whose engines it starts; it draws what it found"},
	{path: "bench/cmd/colonnade-bench", ours: []string{"bench", "fleet", "fleet/document", "node", "onebox"},
		why: "flags, and the gateways made of this repository's own parts"},
	{path: "node", ours: []string{"*"}, never: []string{"cmd/...", "onebox", "fairqueue", "permits"}, third: append(append([]string{}, etcdClient...), errgroup...),
		why: "one node is put together here, the same for the binaries and for a fleet in one process"},
	{path: "onebox", ours: []string{"*"}, never: []string{"cmd/..."}, third: append(append([]string{}, etcdServer...), errgroup...),
		why: "a whole fleet in one process puts everything together"},
	{path: "cmd/entry", ours: []string{"*"}, never: []string{"fairqueue"}, third: commandLine,
		why: "flags to config to run; the wire and the store have packages of their own"},
	{path: "cmd/colo", ours: []string{"*"}, never: []string{"fairqueue"}, third: commandLine,
		why: "flags to config to run; the wire and the store have packages of their own"},
	{path: "cmd/colonnade", ours: []string{"*"}, third: append([]string{"github.com/spf13/cobra", "golang.org/x/sys/unix"}, errgroup...),
		why: "the CLI reaches everything through the packages that do it"},
	{path: "cmd/internal/command", ours: []string{"node", "forwarding/..."}, third: commandLine,
		why: "flags, environment and signals are handled in one way by all binaries, and in nothing below them"},
	{path: "deploy", ours: []string{"fleet"},
		why: "sample documents, parsed by a test"},
	{path: "test/...", ours: []string{"*"},
		why: "end-to-end tests by promise, and tests that need other tools than Go's"},
	{path: "internal/archtest",
		why: "it reads source"},
	{path: "internal/simengine", ours: []string{"fleet"}, third: []string{"github.com/gorilla/websocket"},
		why: "an engine knows nothing of the gateway before it"},
	{path: "internal/faultproxy", ours: []string{"fleet"},
		why: "a bad network knows nothing of what crosses it"},
	{path: "internal/oracle", ours: []string{"fleet", "analytics", "analytics/journal", "internal/testkit"}, third: []string{"golang.org/x/sys/unix"},
		why: "it looks from outside, at pages and at events on disk"},
	{path: "internal/fleettest", ours: []string{"*"}, never: []string{"cmd/..."},
		third: append([]string{"github.com/gorilla/websocket"}, etcdClient...),
		why:   "it runs whole fleets for end-to-end tests"},
	{path: "internal/wiretest", ours: []string{"internal/testkit"},
		why: "bytes on the wire, for tests of any package, so it can know none of them"},
	{path: "internal/testkit", third: []string{"go.uber.org/goleak"},
		why: "what tests of any package share can know none of them"},
	{path: "internal/forwardtest", ours: []string{"forwarding/...", "openai", "internal/testkit", "internal/tlstest"}, third: wire,
		why: "servers and exchanges for the tests of forwarding's packages"},
	{path: "internal/tlstest",
		why: "authorities and certificates for tests"},
	{path: "internal/etcdtest/etcd", third: etcdServer,
		why: "etcd itself, as a process that tests can kill"},
	{path: "internal/etcdtest", ours: []string{"fleet"}, third: etcdServer,
		why: "a store for tests"},
}

// fasthttpIn are the only packages whose code may import fasthttp: its requests and responses are reused, and what
// leaves those packages is copied.
var fasthttpIn = []string{"entry", "colo", "forwarding/server", "forwarding/relay", "internal/forwardtest"}

// Bounds on what is scarce by intent.
const (
	mostInterfaces = 4   // in the whole repository; a function or a struct is nearly always enough
	longestMain    = 45  // lines
	longestFile    = 450 // lines
)
