package onebox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/internal/oracle"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

func TestMain(m *testing.M) {
	// Those that may run at once wait more than they work. In a soak, whose marks are exact, each is alone.
	if err := flag.Set("test.parallel", strconv.Itoa(testkit.AtScale(4, 1))); err != nil {
		panic(err)
	}
	testkit.VerifyMain(oracle.Watched{Tests: m})
}

// patience bounds every wait of these tests; nothing is measured by it.
const patience = time.Minute

// testFleet is a fleet that a test has to itself.
type testFleet struct {
	*onebox.Fleet
	t      testing.TB
	client *http.Client
	key    string // sent with every request that has none of its own
	stop   func() // asks the fleet to end
}

// quick is an engine that answers at once.
func quick(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: time.Millisecond}
}

// startFleet runs a fleet for everybody until the test's end. documents, in YAML, come after the demo's and may replace
// them.
func startFleet(t testing.TB, c onebox.Config, documents string) *testFleet {
	t.Helper()
	c.Open = true
	return startClosedFleet(t, c, documents)
}

// startClosedFleet runs a fleet that wants keys, unless c.Open.
func startClosedFleet(t testing.TB, c onebox.Config, documents string) *testFleet {
	t.Helper()
	oracle.Mark(t)
	c.Listen, c.Etcd, c.Dir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	if c.Drain == 0 {
		c.Drain = 300 * time.Millisecond // nothing runs any more when a test ends
	}
	if c.Colos == nil {
		c.Colos = []string{"ams", "fra"}
	}
	if c.Engines == 0 {
		c.Engines = 1
	}
	if testing.Verbose() && c.Logger == nil {
		c.Logger = func(name string) *slog.Logger {
			return slog.New(slog.NewTextHandler(t.Output(), nil)).With("from", name)
		}
	}
	if documents != "" {
		docs, err := fleet.SplitFile([]byte(documents))
		if err != nil {
			t.Fatal(err)
		}
		c.Documents = append(c.Documents, docs...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan *onebox.Fleet, 1), make(chan error, 1)
	go func() { ended <- onebox.Run(ctx, c, func(f *onebox.Fleet) { started <- f }) }()
	select {
	case f := <-started:
		tf := &testFleet{Fleet: f, t: t, stop: cancel, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
		t.Cleanup(func() {
			tf.client.CloseIdleConnections()
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the fleet ended with: %v", err)
			}
		})
		return tf
	case err := <-ended:
		cancel()
		t.Fatalf("cannot start the fleet: %v", err)
	case <-time.After(patience):
		cancel()
		t.Fatal("the fleet is not up in time")
	}
	return nil
}

// watch starts the oracle, which checks at the test's end that nothing was leaked. idle connections may stay open.
func (f *testFleet) watch(idle int) {
	f.t.Helper()
	f.watchBy(oracle.Config{IdleConnections: idle})
}

// watchBeside is watch for a test beside which others run. What it leaves in the process shows at the end of all.
func (f *testFleet) watchBeside(idle int) {
	f.t.Helper()
	f.watchBy(oracle.Config{IdleConnections: idle, Shared: true})
}

func (f *testFleet) watchBy(c oracle.Config) {
	f.t.Helper()
	// Everything that is opened once and kept is opened before.
	f.chat(`{"model":"demo-chat","messages":[],"max_tokens":1}`)
	c.EventDirs, c.EngineStats = []string{f.Entry.Events}, f.engineStats
	for _, admin := range f.admins() {
		c.AdminURLs = append(c.AdminURLs, "http://"+admin)
	}
	c.Addresses = f.addresses()
	o := oracle.New(f.t, c)
	f.t.Cleanup(func() { // runs before the fleet ends, since it was registered later
		f.client.CloseIdleConnections()
		o.Check(f.t)
	})
}

// addresses are those of all nodes, and of all that they connect to.
func (f *testFleet) addresses() []string {
	all := []string{f.Entry.Address, strings.TrimPrefix(f.Etcd, "http://")}
	for _, n := range f.Colos {
		all = append(all, n.Address)
	}
	for _, admin := range f.admins() {
		for key, doc := range f.page(admin).Documents {
			if at, ok := doc["url"].(string); ok && strings.HasPrefix(key, "endpoints/") {
				_, address, _ := strings.Cut(at, "://")
				all = append(all, strings.TrimSuffix(address, "/"))
			}
		}
	}
	return all
}

func (f *testFleet) engineStats() ([]oracle.EngineStats, error) {
	var all []oracle.EngineStats
	for _, e := range f.Engines {
		s := e.Simulated.Stats()
		all = append(all, oracle.EngineStats{Name: e.Colo + "/" + e.ID, Running: s.Running, Waiting: s.Waiting})
	}
	return all, nil
}

// engine returns the first simulated engine of a colo.
func (f *testFleet) engine(colo string) *simengine.Engine {
	f.t.Helper()
	for _, e := range f.Engines {
		if e.Colo == colo {
			return e.Simulated
		}
	}
	f.t.Fatalf("no engine in %s", colo)
	return nil
}

// fault makes every engine misbehave.
func (f *testFleet) fault(fault string, count int) {
	for _, e := range f.Engines {
		e.Simulated.SetFault(simengine.Fault{Fault: fault, Count: count})
	}
}

// apply writes documents and waits until a condition shows that they are in force.
func (f *testFleet) apply(documents string, inForce func() bool) {
	f.t.Helper()
	docs, err := fleet.SplitFile([]byte(documents))
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.Apply(ctx, docs); err != nil {
		f.t.Fatal(err)
	}
	testkit.WaitFor(f.t, "the documents to be in force", inForce)
}

// answer is a whole answer.
type answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error // of reading the body: it was cut
}

// errorOf is the error object of an answer of ours.
type errorObject struct {
	Message      string `json:"message"`
	Type         string `json:"type"`
	Param        string `json:"param"`
	Code         string `json:"code"`
	Number       int    `json:"number"`
	Reason       string `json:"reason"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	RequestID    string `json:"request_id"`
}

func (a answer) error(t testing.TB) errorObject {
	t.Helper()
	var body struct {
		Error errorObject `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Errorf("answer %d is no error of ours: %v: %.300q", a.Status, err, a.Body)
	}
	return body.Error
}

// chat posts a chat completion and reads the whole answer.
func (f *testFleet) chat(body string, headers ...string) answer {
	f.t.Helper()
	a, err := f.post(context.Background(), "/chat/completions", body, headers...)
	if err != nil {
		f.t.Errorf("chat: %v", err)
	}
	return a
}

// post sends a JSON body with headers (name, value, …) and reads the whole answer.
func (f *testFleet) post(ctx context.Context, path, body string, headers ...string) (answer, error) {
	r, err := f.open(ctx, path, body, headers...)
	if err != nil {
		return answer{}, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return answer{Status: r.StatusCode, Header: r.Header, Body: string(text), Err: err}, nil
}

// open sends a JSON body and returns the answer as it begins. The caller closes its body.
func (f *testFleet) open(ctx context.Context, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if f.key != "" {
		r.Header.Set("Authorization", "Bearer "+f.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return f.client.Do(r)
}

// chatBody is a request for tokens tokens.
func chatBody(tokens int, stream bool) string {
	return fmt.Sprintf(`{"model":"demo-chat","stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, stream, tokens)
}

// clearFaults makes every engine behave.
func (f *testFleet) clearFaults() {
	for _, e := range f.Engines {
		e.Simulated.ClearFaults()
	}
}
