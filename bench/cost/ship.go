package cost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/bench/child"
)

// NoSink is the node whose events no sink gets.
const NoSink = "no sink"

// shipSinks are the sinks that are measured.
func shipSinks() []string { return []string{NoSink, "file", "http, gzip", "http, none"} }

// sinkURL returns the URL of a sink, empty for none.
func sinkURL(sink, dir, receiver string) string {
	switch sink {
	case "file":
		return "file:" + filepath.Join(dir, "events.jsonl") + "?"
	case "http, gzip":
		return "http://" + receiver + "/?compression=gzip&"
	case "http, none":
		return "http://" + receiver + "/?compression=none&"
	}
	return ""
}

// runShip measures requests to `colonnade serve` while it sends a backlog of events to a sink, beside those to one without a sink.
func (m *measurement) runShip(ctx context.Context) (err error) {
	if !m.wants(ShipScenario) {
		return nil
	}
	data := filepath.Join(m.place.dir, "backlog")
	if err := writeBacklog(data, m.size.Backlog); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	receiver := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })}
	go func() { _ = receiver.Serve(listener) }() // ends by Close
	defer func() { err = errors.Join(err, receiver.Close(), os.RemoveAll(data)) }()
	for _, sink := range shipSinks() {
		m.result.Ship = append(m.result.Ship, Shipped{Sink: sink})
	}
	for n := range m.size.ShipRounds {
		for k := range m.result.Ship {
			if n%2 == 1 {
				k = len(m.result.Ship) - 1 - k
			}
			s := &m.result.Ship[k]
			m.step(ShipScenario, s.Sink, fmt.Sprintf("round %d of %d", n+1, m.size.ShipRounds))
			url := sinkURL(s.Sink, data, listener.Addr().String())
			if url != "" {
				url += fmt.Sprintf("name=round-%d-%d", n, k) // a new sink, which gets all events
			}
			round, err := m.shipTurn(ctx, data, url)
			if err != nil {
				return err
			}
			s.Rounds = append(s.Rounds, round)
		}
	}
	return nil
}

// writeBacklog makes a data directory of a node that has kept events.
func writeBacklog(dir string, events int) error {
	l, err := journal.Open(journal.Config{Dir: dir, Node: shipNode})
	if err != nil {
		return err
	}
	for i := range events {
		id := fmt.Sprintf("%032d", i)
		l.Append(&analytics.Event{
			EventID: analytics.EventID(id, shipNode, 1, analytics.KindInference), RequestID: id, Kind: analytics.KindInference, Phase: analytics.PhaseEnd,
			ColoID: "ams", SourceColoID: "weur-1", ColoPath: []string{"ams"}, Account: "acme", Model: "llama-3.1-8b-instruct", Pool: "llama-3.1-8b", Endpoint: "gpu-7",
			Engine: "vllm", Status: 200, Outcome: analytics.OutcomeCompleted, Attempts: 1, RequestTime: analytics.Milliseconds(812*time.Millisecond + time.Duration(i)),
			PromptTokens: 812, CompletionTokens: 64, BytesIn: 4096, BytesOut: 16384, Streamed: true,
		})
	}
	return l.Close()
}

const shipNode = "serve"

// shipTurn starts a node over a data directory, and measures requests while it sends its backlog.
func (m *measurement) shipTurn(ctx context.Context, data, url string) (round ShipRound, err error) {
	admin, err := freeAddress()
	if err != nil {
		return round, err
	}
	c := contestant{Contestant: Contestant{Name: ServeName}, start: func(_ context.Context, p *place, dir string) (*running, error) {
		return startShipping(p, dir, data, admin, url)
	}}
	r, err := m.place.launch(ctx, &c)
	if err != nil {
		return round, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	m.warm(r)
	began := time.Now()
	used, err := child.CPU(r.pids()...)
	if err != nil {
		return round, err
	}
	shipped, err := shippedEvents(ctx, admin)
	if err != nil {
		return round, err
	}
	_, round.Round = m.spaceAt(ctx, r, m.size.ShipRate, m.size.ShipTime)
	lasted := time.Since(began).Seconds()
	after, err := child.CPU(r.pids()...)
	if err != nil {
		return round, err
	}
	shippedAfter, err := shippedEvents(ctx, admin)
	if err != nil {
		return round, err
	}
	memory, err := nodeMemory(r)
	if err != nil {
		return round, err
	}
	round.Events, round.Used, round.Memory = (shippedAfter-shipped)/lasted, micros(after-used)/lasted, memory[0]
	round.Incomplete = shippedAfter >= float64(m.size.Backlog)
	return round, nil
}

// startShipping starts one process over a data directory that exists.
func startShipping(p *place, dir, data, admin, sink string) (*running, error) {
	file, err := writeDocuments(p, dir)
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "-config", file, "-max-connections-per-ip", "65536", "-node", shipNode, "-listen", address, "-admin", admin, "-data-dir", data, "-drain", "100ms"}
	if sink != "" {
		args = append(args, "-sink", sink)
	}
	process, err := child.Start(ServeName, p.node("colonnade", args...))
	if err != nil {
		return nil, err
	}
	r := &running{address: address}
	r.add(ServeName, process, syscall.SIGKILL)
	return r, nil
}

// shippedEvents returns how many events a node has sent to its sink, as its metrics say; 0 without a sink.
func shippedEvents(ctx context.Context, admin string) (n float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request) //nolint:forbidigo // ctx bounds it
	if err != nil {
		return 0, fmt.Errorf("cannot read metrics: %w", err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), "colonnade_events_sink_shipped_total{"); found {
			_, value, _ = strings.Cut(value, "} ")
			if n, err = strconv.ParseFloat(value, 64); err != nil {
				return 0, fmt.Errorf("cannot read metrics: %w", err)
			}
		}
	}
	return n, lines.Err()
}
