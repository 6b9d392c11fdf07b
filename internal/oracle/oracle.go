package oracle

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// Config says what to look at. What is left out is not looked at, but for this process itself.
type Config struct {
	AdminURLs []string // base URLs of the nodes' admin listeners
	EventDirs []string // the Dir of nodes' event logs
	NoEvents  bool     // what stands there is not looked at

	// EntriesElsewhere: no entry logs in EventDirs, so that no "request" event is expected.
	EntriesElsewhere bool

	// Restarted: nodes that log in EventDirs were killed. What stands there twice then counts once, and half a line is
	// where one was killed.
	Restarted bool

	// Shared: other tests run in this process at the same time. Of goroutines, those that the test has marked count
	// (see Mark); of descriptors, connections of Addresses and files below EventDirs. Memory is everybody's: see
	// Watched.
	Shared    bool
	Addresses []string // host:port of the test's own servers

	// EngineStats asks every engine; nil: there are none to ask.
	EngineStats func() ([]EngineStats, error)

	// HealthURLs are probed from New to Check; nil: /health/live of every admin listener.
	HealthURLs []string

	// IdleConnections may stay open within this process. Each counts two file descriptors and four goroutines, for it
	// has both its ends here.
	IdleConnections int

	// MemoryBytes is how much the live heap may have grown; 0: 64 MiB.
	MemoryBytes int64
}

// EngineStats is what an engine has in hand.
type EngineStats struct {
	Name             string
	Running, Waiting int
}

// What may differ for other reasons than a leak.
const (
	slackGoroutines      = 4 // timers, the runtime's own
	slackDescriptors     = 4
	goroutinesPerConn    = 4
	descriptorsPerConn   = 2
	defaultMemoryBytes   = 64 << 20
	quietTime            = 2 * time.Second
	slowestHealth        = 100 * time.Millisecond // p99
	pollInterval         = 20 * time.Millisecond
	longestProfileInText = 6 << 10
)

// Oracle remembers how things were.
type Oracle struct {
	config Config
	client *http.Client
	prober *prober
	before census
}

// New notes how things are and begins to probe the health pages.
func New(t testing.TB, c Config) *Oracle {
	t.Helper()
	if c.MemoryBytes == 0 {
		c.MemoryBytes = defaultMemoryBytes
	}
	if c.HealthURLs == nil {
		for _, u := range c.AdminURLs {
			c.HealthURLs = append(c.HealthURLs, u+"/health/live")
		}
	}
	o := &Oracle{
		config: c,
		// A connection for each question: one kept open would be counted.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: quietTime * scale()},
	}
	o.before, _ = o.count(t)
	if !c.Shared {
		o.before.memory = liveHeap()
	}
	o.prober = startProber(c.HealthURLs)
	t.Cleanup(func() { o.prober.end() })
	return o
}

// Check waits for the fleet to come to rest and fails the test with what has not.
func (o *Oracle) Check(t testing.TB) {
	t.Helper()
	o.prober.end()
	for _, problem := range o.prober.problems(slowestHealth * scale()) {
		t.Error(problem)
	}
	var found []string
	for deadline := time.Now().Add(quietTime * scale()); ; time.Sleep(pollInterval) {
		if found = o.Problems(t); len(found) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, problem := range found {
		t.Error(problem)
	}
}

// Problems looks once and says what is not as it should be at rest. The health prober, which runs until Check, counts
// as a goroutine and a connection too many.
func (o *Oracle) Problems(t testing.TB) []string {
	t.Helper()
	var found []string
	for _, u := range o.config.AdminURLs {
		found = append(found, o.pageProblems(u)...)
	}
	found = append(found, o.engineProblems()...)
	found = append(found, o.eventProblems()...)
	return append(found, o.processProblems(t)...)
}

func (o *Oracle) engineProblems() []string {
	if o.config.EngineStats == nil {
		return nil
	}
	stats, err := o.config.EngineStats()
	if err != nil {
		return []string{fmt.Sprintf("engines: cannot ask: %v", err)}
	}
	var found []string
	for _, s := range stats {
		if s.Running != 0 || s.Waiting != 0 {
			found = append(found, fmt.Sprintf("engine %s: %d running, %d waiting, want 0 and 0", s.Name, s.Running, s.Waiting))
		}
	}
	return found
}

func (o *Oracle) processProblems(t testing.TB) []string {
	t.Helper()
	var found []string
	now, profile := o.count(t)
	most := o.before.goroutines + slackGoroutines + goroutinesPerConn*o.config.IdleConnections
	if now.goroutines > most {
		if profile == "" {
			profile = goroutineProfile()
		}
		found = append(found, fmt.Sprintf("goroutines: %d, were %d, may be %d:\n%.*s",
			now.goroutines, o.before.goroutines, most, longestProfileInText, profile))
	}
	most = o.before.descriptors + slackDescriptors + descriptorsPerConn*o.config.IdleConnections
	if now.descriptors > most {
		found = append(found, fmt.Sprintf("file descriptors: %d, were %d, may be %d",
			now.descriptors, o.before.descriptors, most))
	}
	if o.config.Shared {
		return found
	}
	if heap, beyond := grownBeyond(o.before.memory + o.config.MemoryBytes); beyond {
		found = append(found, fmt.Sprintf("memory: live heap is %d bytes, was %d, may grow by %d",
			heap, o.before.memory, o.config.MemoryBytes))
	}
	return found
}

// scale is how much more time everything gets.
func scale() time.Duration {
	if testkit.Soak() {
		return 1
	}
	return 10
}
