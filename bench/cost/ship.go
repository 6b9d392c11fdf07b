package cost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/bench/child"
)

// shipPoll is how often a node is asked how far its sink is.
const shipPoll = 20 * time.Millisecond

// shipSinks are the sinks that are measured.
func shipSinks() []string { return []string{"file", "http, gzip", "http, none"} }

// sinkFields returns the fields of the document of a sink.
func sinkFields(sink, receiver string) string {
	switch sink {
	case "http, gzip":
		return "url: http://" + receiver + "/, compression: gzip"
	case "http, none":
		return "url: http://" + receiver + "/, compression: none"
	}
	return "url: 'file:" + shipFile + "'"
}

// shipFile is the file of the sink, below the directory of the node's sinks.
const shipFile = "events.jsonl"

// shipping is a node that gets a sink for the turns in which it ships, and loses it for the others: the turns of one process, with the same
// connections and the same memory, are compared.
type shipping struct {
	*measurement
	*running
	sink, receiver string
	data           string // directory
	admin          string // address
	file           string // of the documents
	documents      string // without the sink
}

// runShip measures requests to `colonnade serve` while it sends a backlog of events to a sink, beside those while it does not.
func (m *measurement) runShip(ctx context.Context) (err error) {
	if !m.wants(ShipScenario) {
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	receiver := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })}
	go func() { _ = receiver.Serve(listener) }() // ends by Close
	defer func() { err = errors.Join(err, receiver.Close()) }()
	for _, sink := range shipSinks() {
		s := &shipping{measurement: m, sink: sink, receiver: listener.Addr().String()}
		shipped, err := s.measure(ctx)
		if err != nil {
			return err
		}
		m.result.Ship = append(m.result.Ship, shipped)
	}
	return nil
}

// measure starts a node with a backlog, and lets it ship in one turn of each round. Turns that ship, and those that do not, are in the order
// ABBA, after a turn that does not count.
func (s *shipping) measure(ctx context.Context) (shipped Shipped, err error) {
	shipped.Sink = s.sink
	c := contestant{Contestant: Contestant{Name: ServeName}, start: s.start}
	if s.running, err = s.place.launch(ctx, &c); err != nil {
		return shipped, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	s.warm(s.running)
	if _, err := s.turn(ctx); err != nil {
		return shipped, err
	}
	for n := range s.size.ShipRounds {
		s.step(ShipScenario, s.sink, fmt.Sprintf("round %d of %d", n+1, s.size.ShipRounds))
		var round ShipRound
		for k := range 2 {
			if (n+k)%2 == 0 {
				round.Without, err = s.turn(ctx)
			} else {
				err = s.ship(ctx, fmt.Sprintf("round-%d", n+1), &round)
			}
			if err != nil {
				return shipped, err
			}
		}
		shipped.Rounds = append(shipped.Rounds, round)
	}
	return shipped, nil
}

// ship gives the node a new sink, which lacks all events, and measures a turn while the node sends them.
func (s *shipping) ship(ctx context.Context, name string, round *ShipRound) error {
	if err := s.write(fmt.Sprintf("%s---\n{key: sinks/%s, %s}\n", s.documents, name, sinkFields(s.sink, s.receiver))); err != nil {
		return err
	}
	before, err := s.awaitEvents(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if round.With, err = s.turn(ctx); err != nil {
		return err
	}
	after, err := shippedEvents(ctx, s.admin)
	if err != nil {
		return err
	}
	round.Events = (after - before) / time.Since(began).Seconds()
	round.Incomplete = after >= float64(s.size.Backlog)
	return s.remove(ctx, name)
}

// turn measures requests for a while.
func (s *shipping) turn(ctx context.Context) (turn ShipTurn, err error) {
	var t counters
	began := time.Now()
	used, err := child.CPU(s.pids()...)
	if err != nil {
		return turn, err
	}
	latencies, _ := s.spaced(ctx, s.running, s.size.ShipRate, s.size.ShipTime, &t)
	lasted := time.Since(began).Seconds()
	after, err := child.CPU(s.pids()...)
	if err != nil {
		return turn, err
	}
	memory, err := nodeMemory(s.running)
	if err != nil {
		return turn, err
	}
	var failures Round
	t.into(&failures)
	return ShipTurn{Latencies: slices.Concat(latencies...), Used: micros(after-used) / lasted, Memory: memory[0], Failed: failures.Failed, FirstFail: failures.FirstFail}, ctx.Err()
}

// remove takes the sink away, and returns once the node has closed it: until then, the node still sends what is there.
func (s *shipping) remove(ctx context.Context, name string) error {
	if err := s.write(s.documents); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.data, "ship", shipNode, name+".lock"), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot open the lock of the sink: %w", err)
	}
	defer lock.Close()
	for deadline := time.Now().Add(startTimeout); syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil; {
		if time.Sleep(shipPoll); ctx.Err() != nil || time.Now().After(deadline) {
			return errors.Join(ctx.Err(), errors.New("the node does not close its sink"))
		}
	}
	if err := os.Remove(filepath.Join(s.data, "sinks", shipNode, shipFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the file of the sink: %w", err)
	}
	return nil
}

// awaitEvents waits until the sink has taken events, and returns how many.
func (s *shipping) awaitEvents(ctx context.Context) (events float64, err error) {
	for deadline := time.Now().Add(startTimeout); ; {
		if events, err = shippedEvents(ctx, s.admin); err != nil || events > 0 {
			return events, err
		}
		if time.Sleep(shipPoll); ctx.Err() != nil || time.Now().After(deadline) {
			return 0, errors.Join(ctx.Err(), errors.New("the sink gets no events"))
		}
	}
}

// write replaces the documents of the node.
func (s *shipping) write(text string) error {
	next, err := writeFile(s.data, "documents.next", text)
	if err != nil {
		return err
	}
	return os.Rename(next, s.file)
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

// start starts one process over a data directory with a backlog.
func (s *shipping) start(_ context.Context, p *place, dir string) (r *running, err error) {
	s.data = filepath.Join(dir, "data")
	if err := writeBacklog(s.data, s.size.Backlog); err != nil {
		return nil, err
	}
	if s.file, err = writeDocuments(p, dir); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the documents: %w", err)
	}
	s.documents = string(text)
	if s.admin, err = freeAddress(); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	process, err := child.Start(ServeName, p.node("colonnade", "serve", "-config", s.file, "-max-connections-per-ip", "65536", "-node", shipNode,
		"-listen", address, "-admin", s.admin, "-data-dir", s.data, "-drain", "100ms"))
	if err != nil {
		return nil, err
	}
	r = &running{address: address}
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
