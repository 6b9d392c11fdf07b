package fleettest

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/internal/oracle"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// Fleet is a running fleet that belongs to one test. With COLONNADE_DIRECT in the environment, all entries call
// their colo servers as functions, without HTTP in between; tests of what stands on the wire between nodes then fail.
// With COLONNADE_SERVE, each fleet is one process as `colonnade serve` runs it, for the colo ams; tests that need more are skipped.
// With COLONNADE_NO_LINKS, requests between nodes have connections of their own; tests of links then fail.
type Fleet struct {
	*onebox.Fleet
	T      testing.TB
	Client *http.Client
	Key    string // an API key for requests that bring no Authorization of their own
	Stop   func() // asks the whole fleet to end

	shutdown     func()
	hopSequences *hopSequences
}

// Start runs a fleet that serves requests without a key, until the end of the test. documents are YAML; they follow the
// demo's and may replace them.
func Start(t testing.TB, c onebox.Config, documents string) *Fleet {
	t.Helper()
	c.Open = true
	return StartClosed(t, c, documents)
}

// StartClosed runs a fleet that wants keys, unless c.Open is set.
func StartClosed(t testing.TB, c onebox.Config, documents string) *Fleet {
	t.Helper()
	oracle.LabelGoroutines(t)
	setDefaults(t, &c)
	c.Documents = append(c.Documents, split(t, documents)...)
	if c.Serve && slices.ContainsFunc(c.Documents, func(d document.Raw) bool { return strings.HasPrefix(d.Key, string(fleet.KindServer)+"/") }) {
		NeedsFleet(t, "a server of another process")
	}
	if !slices.ContainsFunc(c.Documents, func(d document.Raw) bool { return d.Key == patientDefaults.Key }) {
		c.Documents = append(c.Documents, patientDefaults)
	}
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan *onebox.Fleet, 1), make(chan error, 1)
	go func() { ended <- onebox.Run(ctx, c, func(f *onebox.Fleet) { started <- f }) }()
	select {
	case running := <-started:
		f := &Fleet{Fleet: running, T: t, Stop: cancel, Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
		f.hopSequences = &hopSequences{byBoot: map[string]*hop.Sequence{}}
		f.shutdown = sync.OnceFunc(func() {
			f.Client.CloseIdleConnections()
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the fleet ended with: %v", err)
			}
		})
		t.Cleanup(f.shutdown)
		return f
	case err := <-ended:
		cancel()
		t.Fatalf("cannot start the fleet: %v", err)
	case <-time.After(testkit.Timeout):
		cancel()
		t.Fatal("the fleet has not started in time")
	}
	return nil
}

// patientDefaults have nodes wait for a connection for as long as a busy machine needs. A test's own defaults replace them.
var patientDefaults = document.Raw{Key: "defaults", Value: []byte("model: {timeouts: {connect: 30s}}")}

func setDefaults(t testing.TB, c *onebox.Config) {
	c.Listen, c.Etcd, c.Dir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	if c.Drain == 0 {
		c.Drain = 300 * time.Millisecond // nothing runs any more when a test ends
	}
	if Serve() {
		setServe(t, c)
	}
	if c.Colos == nil {
		c.Colos = []string{"ams", "fra"}
	}
	if c.Engines == 0 {
		c.Engines = 1
	}
	c.Direct = c.Direct || Direct()
	c.NoLinks = c.NoLinks || os.Getenv("COLONNADE_NO_LINKS") != ""
	if testing.Verbose() && c.Logger == nil {
		c.Logger = func(name string) *slog.Logger {
			return slog.New(slog.NewTextHandler(t.Output(), nil)).With("from", name)
		}
	}
}

func split(t testing.TB, documents string) []document.Raw {
	t.Helper()
	if documents == "" {
		return nil
	}
	docs, err := document.SplitFile([]byte(documents))
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// Shutdown ends the whole fleet before the end of the test does.
func (f *Fleet) Shutdown() { f.shutdown() }

// ApplyAndWait writes documents as the command line does, and waits until a condition shows that they are in force.
func (f *Fleet) ApplyAndWait(documents string, inForce func() bool) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	if err := f.Apply(ctx, split(f.T, documents)); err != nil {
		f.T.Fatal(err)
	}
	testkit.WaitFor(f.T, "the documents to be in force", inForce)
}

// EndNode asks one node to end, as SIGTERM does. The returned function waits until it has ended, and so does the end of
// the test. Of a fleet that is one process, entry-1 is that process.
func (f *Fleet) EndNode(name string) (wait func()) {
	f.T.Helper()
	if f.Etcd == "" {
		if name != "entry-1" {
			NeedsFleet(f.T, "a colo server that ends before the entry")
		}
		name = f.Entry.Node
	}
	over := make(chan error, 1)
	go func() { over <- f.End(name) }()
	wait = sync.OnceFunc(func() {
		f.T.Helper()
		select {
		case err := <-over:
			if err != nil {
				f.T.Errorf("%s ended with: %v", name, err)
			}
		case <-time.After(testkit.Timeout):
			f.T.Errorf("%s has not ended", name)
		}
	})
	f.T.Cleanup(wait)
	return wait
}

// In returns the same fleet for a subtest.
func (f *Fleet) In(t testing.TB) *Fleet {
	view := *f
	view.T = t
	return &view
}

// Direct reports whether the entries of all fleets call their colo servers as functions: see [Fleet].
func Direct() bool { return os.Getenv("COLONNADE_DIRECT") != "" }
