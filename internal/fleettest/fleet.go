package fleettest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/internal/oracle"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// testkit.Patience bounds every wait of these tests; nothing is measured by it.

// Fleet is a fleet that a test has to itself.
type Fleet struct {
	*onebox.Fleet
	T      testing.TB
	Client *http.Client
	Key    string // sent with every request that has none of its own
	Stop   func() // asks the fleet to end
}

// Start runs a fleet for everybody until the test's end. documents, in YAML, come after the demo's and may replace
// them.
func Start(t testing.TB, c onebox.Config, documents string) *Fleet {
	t.Helper()
	c.Open = true
	return StartClosed(t, c, documents)
}

// StartClosed runs a fleet that wants keys, unless c.Open.
func StartClosed(t testing.TB, c onebox.Config, documents string) *Fleet {
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
		tf := &Fleet{Fleet: f, T: t, Stop: cancel, Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
		t.Cleanup(func() {
			tf.Client.CloseIdleConnections()
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the fleet ended with: %v", err)
			}
		})
		return tf
	case err := <-ended:
		cancel()
		t.Fatalf("cannot start the fleet: %v", err)
	case <-time.After(testkit.Patience):
		cancel()
		t.Fatal("the fleet is not up in time")
	}
	return nil
}

// ApplyAndWait writes documents and waits until a condition shows that they are in force.
func (f *Fleet) ApplyAndWait(documents string, inForce func() bool) {
	f.T.Helper()
	docs, err := fleet.SplitFile([]byte(documents))
	if err != nil {
		f.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := f.Apply(ctx, docs); err != nil {
		f.T.Fatal(err)
	}
	testkit.WaitFor(f.T, "the documents to be in force", inForce)
}

// EndNode asks one node to end as SIGTERM does, and waits at the test's end until it has, or when the function is called.
func (f *Fleet) EndNode(name string) (wait func()) {
	f.T.Helper()
	over := make(chan error, 1)
	go func() { over <- f.End(name) }()
	wait = sync.OnceFunc(func() {
		f.T.Helper()
		select {
		case err := <-over:
			if err != nil {
				f.T.Errorf("%s ended with: %v", name, err)
			}
		case <-time.After(testkit.Patience):
			f.T.Errorf("%s has not ended", name)
		}
	})
	f.T.Cleanup(wait)
	return wait
}

// In is the same fleet in a part of its test.
func (f *Fleet) In(t testing.TB) *Fleet {
	view := *f
	view.T = t
	return &view
}
