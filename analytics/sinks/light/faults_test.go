package light_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/light"
	"colonnade/internal/faultproxy"
	"colonnade/internal/testkit"
)

// fault is what happens to a sink.
type fault string

const (
	dead    fault = "dead at the start"
	slow    fault = "slow"
	lost    fault = "three acknowledgements lost"
	refuses fault = "refuses one event"
	half    fault = "refuses every second event"
)

const (
	shippedEvents = 60
	refusedEvent  = "id-33"
)

// isRefused reports whether a sink with the fault refuses an event.
func (f fault) isRefused(id string) bool {
	return f == refuses && id == refusedEvent || f == half && strings.ContainsAny(id[len(id)-1:], "13579")
}

// peer is the other side of a sink that has a fault.
type peer struct {
	url  string
	heal func()          // ends a fault that does not end by itself
	ids  func() []string // of the events that have arrived, with those that came again
}

// Every sink gets every event, whatever happens to it, but for the one that it refuses; that one is counted.
func TestFaults(t *testing.T) {
	for scheme, f := range map[string]struct {
		start  func(*testing.T, fault) peer
		faults []fault
	}{
		"file": {filePeer, []fault{dead}}, // a full disk: TestFileOnAFullDisk and TestFileThatCannotGrow
		"unix": {unixPeer, []fault{dead, slow, lost}},
		"http": {httpPeer, []fault{dead, slow, lost, refuses, half}},
		"otlp": {otlpPeer, []fault{dead, slow, lost, refuses, half}},
		"nats": {natsPeer, []fault{dead, slow, lost, refuses, half}},
	} {
		for _, what := range f.faults {
			t.Run(scheme+", "+string(what), func(t *testing.T) {
				t.Parallel()
				shipTo(t, f.start(t, what), what)
			})
		}
	}
}

func shipTo(t *testing.T, p peer, what fault) {
	s, l := shipperTo(t, p.url)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	}()
	want := map[string]bool{}
	for i := range shippedEvents {
		e := &analytics.Event{EventID: fmt.Sprintf("id-%d", i), RequestID: fmt.Sprint(i), Kind: analytics.KindRequest, Phase: analytics.PhaseEnd, Outcome: analytics.OutcomeCompleted}
		if want[e.EventID] = true; what.isRefused(e.EventID) {
			delete(want, e.EventID)
			e.Model = strings.Repeat("m", 6000)
		}
		l.Append(e)
	}
	if what == dead {
		testkit.WaitFor(t, "a failure", func() bool { return s.Stats().Failing != "" })
		if got := s.Stats(); got.LagEvents != shippedEvents || got.Shipped != 0 {
			t.Errorf("while it is dead: %+v", got)
		}
	}
	p.heal()
	testkit.WaitFor(t, "all events", func() bool { return s.Stats().LagEvents == 0 })
	stats, got := s.Stats(), p.ids()
	all := map[string]bool{}
	for _, id := range got {
		all[id] = true
	}
	if len(all) != len(want) || slices.ContainsFunc(got, func(id string) bool { return !want[id] }) || stats.Failing != "" {
		t.Errorf("%d events have arrived, %d of them different, want %d: %+v", len(got), len(all), len(want), stats)
	}
	if refused := uint64(shippedEvents - len(want)); stats.Rejected != refused || stats.Shipped != uint64(len(want)) {
		t.Errorf("%d were refused, want %d: %+v", stats.Rejected, refused, stats)
	}
	if what == lost && stats.Failures < 3 {
		t.Errorf("%d attempts failed: %+v", stats.Failures, stats)
	}
}

// shipperTo returns a shipper from a journal to a sink.
func shipperTo(t *testing.T, raw string) (*ship.Shipper, *journal.Log) {
	t.Helper()
	dir := t.TempDir()
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	spec, err := sinks.Parse(raw + "?every=10ms&batch_events=10")
	if err != nil {
		t.Fatal(err)
	}
	e := sinks.Environment{Node: "ams-1", DataDir: dir}
	sink, err := light.Open(spec, e)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ship.Open(light.Config(spec, e, time.Minute), sink)
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

func filePeer(t *testing.T, _ fault) peer {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the directory is to be
		t.Fatal(err)
	}
	path := filepath.Join(dir, "e.jsonl")
	return peer{"file:" + path, func() { _ = os.Remove(dir) }, func() []string {
		text, _ := os.ReadFile(path)
		return idsIn(string(text))
	}}
}

// idsIn returns the ids of whole lines.
func idsIn(text string) (ids []string) {
	for line := range strings.Lines(text) {
		_, id, _ := strings.Cut(line, `"event_id":"`)
		if id, _, whole := strings.Cut(id, `"`); whole && strings.HasSuffix(line, "\n") {
			ids = append(ids, id)
		}
	}
	return ids
}

// heap are the ids that a peer has.
type heap struct {
	mu  sync.Mutex // guards the fields below
	ids []string
	n   int // batches
}

// add adds ids, and returns how many batches there were before.
func (h *heap) add(ids ...string) (before int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, ids...)
	h.n++
	return h.n - 1
}

func (h *heap) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ids)
}

// unixPeer reads slowly, or ends the first three connections within a batch.
func unixPeer(t *testing.T, what fault) peer {
	path, got := filepath.Join(t.TempDir(), "s"), &heap{}
	start := func() {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Error(err)
			return
		}
		var reading sync.WaitGroup
		reading.Go(func() {
			for n := 0; ; n++ {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				reading.Go(func() {
					defer c.Close()
					in := bufio.NewReaderSize(c, 64)
					for read := 0; what != lost || n >= 3 || read < 5; read++ {
						line, err := in.ReadString('\n')
						if err != nil {
							return
						}
						if got.add(idsIn(line)...); what == slow {
							time.Sleep(3 * time.Millisecond)
						}
					}
				})
			}
		})
		t.Cleanup(func() { _ = listener.Close(); reading.Wait() })
	}
	if what == dead {
		return peer{"unix:" + path, start, got.all}
	}
	start()
	return peer{"unix:" + path, func() {}, got.all}
}

// overTCP puts a fault of the network in front of a server.
func overTCP(t *testing.T, address string, what fault) (*faultproxy.Proxy, func()) {
	p := testkit.NewProxy(t, address)
	switch what {
	case dead:
		p.Refuse()
		return p, p.Heal
	case slow:
		p.Delay(50 * time.Millisecond)
		p.Inject(faultproxy.Fault{Kind: faultproxy.Drip, Way: faultproxy.ToServer, Rate: 200_000})
	}
	return p, func() {}
}

// overHTTP serves batches whose ids decode returns. It takes the first three batches without an answer, or refuses those with the event
// that it does not want.
func overHTTP(t *testing.T, scheme string, what fault, decode func([]byte) []string) peer {
	got := &heap{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		body, err := io.ReadAll(z)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		ids := decode(body)
		if slices.ContainsFunc(ids, what.isRefused) {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		if n := got.add(ids...); what == lost && n < 3 {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	proxy, heal := overTCP(t, server.Listener.Addr().String(), what)
	return peer{scheme + "://" + proxy.Address, heal, got.all}
}

func httpPeer(t *testing.T, what fault) peer {
	return overHTTP(t, "http", what, func(body []byte) []string { return idsIn(string(body)) })
}

func otlpPeer(t *testing.T, what fault) peer {
	return overHTTP(t, "otlp", what, func(body []byte) (ids []string) {
		var export collector.ExportLogsServiceRequest
		if err := proto.Unmarshal(body, &export); err != nil {
			t.Error(err)
		}
		for _, resource := range export.GetResourceLogs() {
			for _, scope := range resource.GetScopeLogs() {
				for _, record := range scope.GetLogRecords() {
					for _, a := range record.GetAttributes() {
						if a.GetKey() == "colonnade.event_id" {
							ids = append(ids, a.GetValue().GetStringValue())
						}
					}
				}
			}
		}
		return ids
	})
}

// natsPeer is a NATS server in the test's process, whose stream takes no long messages.
func natsPeer(t *testing.T, what fault) peer {
	server, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	if !server.ReadyForConnections(testkit.Timeout) {
		t.Fatal("NATS does not start")
	}
	conn, err := natsclient.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events"}, MaxMsgSize: 5000})
	if err != nil {
		t.Fatal(err)
	}
	proxy, heal := overTCP(t, server.Addr().String(), what)
	if what == lost {
		for i := range int64(3) { // behind the messages of the server at the begin, among the acknowledgements
			proxy.InjectNext(faultproxy.Fault{Kind: faultproxy.Reset, Way: faultproxy.ToClient, At: 1100 + 150*i})
		}
	}
	return peer{"nats://" + proxy.Address + "/events", heal, func() (ids []string) {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
			m, err := stream.GetMsg(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, idsIn(string(m.Data)+"\n")...)
		}
		return ids
	}}
}
