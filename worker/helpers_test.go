package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// asEngine is the first argument of the program of the tests that makes it an engine.
const asEngine = "engine"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asEngine {
		os.Exit(runEngine(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// runEngine is a simulated engine as a process. It says when it listens, and when it gets SIGTERM.
func runEngine(args []string) int {
	flags := flag.NewFlagSet(asEngine, flag.ExitOnError)
	listen := flags.String("listen", "", "")
	loading := flags.Duration("loading", 0, "time before it listens")
	status := flags.Int("status", 0, "exit status after SIGTERM")
	ignore := flags.Bool("ignore", false, "ignore SIGTERM")
	models := flags.String("models", "tiny", "")
	_ = flags.Parse(args)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		fmt.Println("got SIGTERM")
		if !*ignore {
			stop()
		}
	}()
	time.Sleep(*loading)
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	fmt.Println("listening")
	e := simengine.New(simengine.Config{Kind: "vllm", Models: strings.Split(*models, ",")})
	defer e.Close()
	if err := simengine.Serve(ctx, ln, e); err != nil {
		return 1
	}
	return *status
}

// memory is a registry in memory.
type memory struct {
	mu       sync.Mutex // guards the fields below
	all      []Registration
	inFlight int
	pools    map[string]string // by model
	refuse   error             // of Run
	revoked  chan error        // ends Run; nil = nothing does
	removed  bool
	invalid  error       // of documents of the worker
	running  func() bool // whether the engine answered when the documents were removed
	last     bool        // what running returned then
	setAt    time.Time   // of the newest
	goneAt   time.Time   // when they were removed
}

// stood checks that the newest documents stood for a time before they were removed.
func (m *memory) stood(t *testing.T, atLeast time.Duration) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if stood := m.goneAt.Sub(m.setAt); stood < atLeast {
		t.Errorf("the newest documents stood for %v, want %v", stood, atLeast)
	}
}

func (m *memory) registry() Registry {
	return Registry{
		Run: func(ctx context.Context) error {
			m.mu.Lock()
			refuse := m.refuse
			m.mu.Unlock()
			if refuse != nil {
				return refuse
			}
			select {
			case err := <-m.revoked:
				return err
			case <-ctx.Done():
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.removed, m.goneAt = true, time.Now()
			if m.running != nil {
				m.last = m.running()
			}
			return nil
		},
		Set: func(r Registration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			text, err := json.Marshal(r.Worker)
			if err == nil {
				err = document.Check(fleet.KindWorker.Key(r.Worker.Node), text)
			}
			m.invalid = errors.Join(m.invalid, err)
			m.all = append(m.all, r)
			m.setAt = time.Now()
		},
		Stored: func(ctx context.Context) error {
			m.mu.Lock()
			refuse := m.refuse
			m.mu.Unlock()
			if refuse != nil {
				<-ctx.Done()
			}
			return ctx.Err()
		},
		InFlight: func(ctx context.Context) (int, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.inFlight, ctx.Err()
		},
		PoolOf: func(_ context.Context, model string) (string, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.pools[model], nil
		},
	}
}

func (m *memory) setRefused(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = err
}

func (m *memory) setInFlight(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inFlight = n
}

// newest returns the newest state.
func (m *memory) newest() Registration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) == 0 {
		return Registration{}
	}
	return m.all[len(m.all)-1]
}

// states returns the states of the engine so far, without repetitions.
func (m *memory) states() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var states []string
	for _, r := range m.all {
		states = append(states, r.Worker.Engine.State)
	}
	return slices.Compact(states)
}

// endpointOf returns the endpoint as a table has it; nil if there is none yet.
func endpointOf(t *testing.T, r Registration) *fleet.Endpoint {
	t.Helper()
	if r.Endpoint.Key == "" {
		return nil
	}
	set := document.NewSet()
	if err := set.Put(r.Endpoint.Key, r.Endpoint.Value, 1); err != nil {
		t.Fatalf("%v\n%s", err, r.Endpoint.Value)
	}
	endpoint, ok := set.Noun(r.Endpoint.Key).(*fleet.Endpoint)
	if !ok {
		t.Fatalf("no endpoint:\n%s", r.Endpoint.Value)
	}
	return endpoint
}

// text is a place for output and for lines of the worker.
type text struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

func (o *text) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *text) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// running is a worker that runs.
type running struct {
	*Worker
	t           *testing.T
	store       *memory
	stop        context.CancelFunc
	out, errors text
	lines       text
	ended       chan struct{}
	err         error // once ended is closed
}

// quick are the fields of an endpoint whose health is checked often.
func quick() map[string]any {
	return map[string]any{"health": map[string]any{"interval": "50ms", "timeout": "1s"}}
}

// engine returns the command of an engine.
func engine(address string, args ...string) []string {
	return append([]string{os.Args[0], asEngine, "-listen", address}, args...)
}

// begin runs a worker.
func begin(t *testing.T, c Config, store *memory) *running {
	t.Helper()
	r := &running{t: t, store: store, ended: make(chan struct{})}
	c.Registry, c.Colo, c.Node = store.registry(), "ams", "gpu-1"
	c.Stdout, c.Stderr = &r.out, &r.errors
	c.Report = func(line string) { fmt.Fprintln(&r.lines, line) }
	if c.Fields == nil {
		c.Fields = quick()
	}
	if c.Drain == 0 {
		c.Drain = testkit.Timeout
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = testkit.Timeout
	}
	var err error
	if r.Worker, err = New(c); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	go func() {
		defer close(r.ended)
		r.err = r.Run(ctx)
	}()
	t.Cleanup(func() {
		r.Abort()
		r.stop()
		<-r.ended
		if err := store.invalid; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("worker:\n%sengine:\n%s%s", r.lines.String(), r.out.String(), r.errors.String())
		}
	})
	return r
}

// beginEngine runs a worker that starts an engine, and waits until it serves.
func beginEngine(t *testing.T, c Config, store *memory, args ...string) *running {
	t.Helper()
	address := etcdtest.FreeAddress(t)
	c.URL, c.Command = "http://"+address, engine(address, args...)
	r := begin(t, c, store)
	r.await(fleet.WorkerServing)
	return r
}

// await waits until the engine is in a state, and returns what is registered then.
func (r *running) await(state string) Registration {
	r.t.Helper()
	testkit.WaitFor(r.t, "the state "+state, func() bool { return r.store.newest().Worker.Engine.State == state })
	return r.store.newest()
}

// end waits for the end of the worker, and returns its error.
func (r *running) end() error {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(testkit.Timeout):
		r.t.Fatal("the worker has not ended")
		return nil
	}
}

// endsWith checks the exit status of the worker.
func (r *running) endsWith(status int, reason string) {
	r.t.Helper()
	exit := (*ExitError)(nil)
	if err := r.end(); !errors.As(err, &exit) || exit.Status != status || !strings.Contains(err.Error(), reason) {
		r.t.Errorf("the worker ended with %v, want %d: %s", err, status, reason)
	}
}

// listens reports whether something accepts connections at an address.
func listens(url string) bool {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return false
	}
	c.Close()
	return true
}
