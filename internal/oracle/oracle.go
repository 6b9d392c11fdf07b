package oracle

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// Config says what to check. A zero field checks nothing; this process is always checked.
type Config struct {
	AdminURLs []string // base URLs of the nodes' admin listeners
	EventDirs []string // the Dir of the nodes' journals
	NoEvents  bool     // do not check events in EventDirs

	// EntriesElsewhere: no entry logs in EventDirs, so that no "request" event is expected.
	EntriesElsewhere bool

	// Restarted: nodes that log in EventDirs were killed. A repeated end and an incomplete line are then no problem.
	Restarted bool

	// Shared: other tests run in this process at the same time. Then only labelled goroutines (see LabelGoroutines),
	// connections of Addresses and files below EventDirs count, and memory does not: see LeakCheck.
	Shared    bool
	Addresses []string // host:port of the test's own servers

	// EngineStats returns the load of every engine; nil: there are none.
	EngineStats func() ([]EngineStats, error)

	// HealthURLs are probed from New to Check; nil: /health/live of every admin listener.
	HealthURLs []string

	// IdleConnections may stay open within this process. Each counts two file descriptors and four goroutines, since both
	// of its ends are in this process.
	IdleConnections int

	// MemoryBytes is the allowed growth of the live heap; 0: 64 MiB.
	MemoryBytes int64
}

// EngineStats is the load of an engine.
type EngineStats struct {
	Name             string
	Running, Waiting int
}

// Allowances for differences that are no leaks, and times.
const (
	slackGoroutines    = 4 // timers, the runtime's own
	slackDescriptors   = 4
	goroutinesPerConn  = 4
	descriptorsPerConn = 2
	defaultMemoryBytes = 64 << 20
	settleTime         = 2 * time.Second
	steadyTime         = 200 * time.Millisecond
	maxHealthP99       = 100 * time.Millisecond
	pollInterval       = 20 * time.Millisecond
	maxProfileBytes    = 6 << 10
)

// Oracle has the state from before a test.
type Oracle struct {
	config Config
	client *http.Client
	prober *prober
	before resources
}

// New records the present state and starts to probe the health pages.
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
		// No connection is kept open: it would count.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: settleTime * timeScale()},
	}
	o.before = o.steady(t)
	if !c.Shared {
		o.before.memory = liveHeap()
	}
	o.prober = startProber(c.HealthURLs)
	t.Cleanup(func() { o.prober.end() })
	return o
}

// steady counts once nothing is added for a while: a node serves before its last watches of etcd are open.
func (o *Oracle) steady(t testing.TB) resources {
	t.Helper()
	last, since, began := o.count(t), time.Now(), time.Now()
	for time.Since(since) < steadyTime && time.Since(began) < settleTime*timeScale() {
		time.Sleep(pollInterval)
		now := o.count(t)
		if now.goroutines > last.goroutines || now.descriptors > last.descriptors {
			since = time.Now()
		}
		last = now
	}
	return last
}

// Check waits for the fleet to come to rest, and fails the test with every problem that is left.
func (o *Oracle) Check(t testing.TB) {
	t.Helper()
	o.prober.end()
	for _, problem := range o.prober.problems(maxHealthP99 * timeScale()) {
		t.Error(problem)
	}
	var found []string
	for deadline := time.Now().Add(settleTime * timeScale()); ; time.Sleep(pollInterval) {
		if found = o.Problems(t); len(found) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, problem := range found {
		t.Error(problem)
	}
}

// Problems checks once and returns violations of what holds at rest. The health prober, which runs until Check, counts as
// a goroutine and a connection too many.
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
		return []string{fmt.Sprintf("engines: cannot read their load: %v", err)}
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
	now := o.count(t)
	allowed := o.before.goroutines + slackGoroutines + goroutinesPerConn*o.config.IdleConnections
	if now.goroutines > allowed {
		found = append(found, fmt.Sprintf("goroutines: %d, before %d, allowed %d; more than before:\n%.*s",
			now.goroutines, o.before.goroutines, allowed, maxProfileBytes, grown(o.before.stacks, now.stacks)))
	}
	allowed = o.before.descriptors + slackDescriptors + descriptorsPerConn*o.config.IdleConnections
	if now.descriptors > allowed {
		found = append(found, fmt.Sprintf("file descriptors: %d, before %d, allowed %d",
			now.descriptors, o.before.descriptors, allowed))
	}
	if o.config.Shared {
		return found
	}
	if heap, exceeds := heapExceeds(o.before.memory + o.config.MemoryBytes); exceeds {
		found = append(found, fmt.Sprintf("memory: live heap is %d bytes, before %d, allowed growth %d",
			heap, o.before.memory, o.config.MemoryBytes))
	}
	return found
}

// timeScale is the factor of all times.
func timeScale() time.Duration {
	if testkit.Soak() {
		return 1
	}
	return 10
}
