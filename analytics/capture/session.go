package capture

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/fleet"
	"colonnade/internal/ctxtime"
)

const (
	// queued is how many records wait for the sink at most.
	queued = 256
	// batchBytes is how much is written at once, or one record if it is larger.
	batchBytes = 4 << 20
	// remindEvery is how often the log says that a capture goes on.
	remindEvery = time.Minute
	// lastWrites bounds the writes after the end.
	lastWrites = 5 * time.Second
	// retryEvery is the pause after a write that has failed.
	retryEvery = time.Second
)

// session is one capture in force.
type session struct {
	capture fleet.Capture
	node    string
	log     *slog.Logger
	memory  *memory
	queue   chan *Record
	sink    sink
	written atomic.Int64
	dropped atomic.Int64
	ended   context.Context // by stop, or when the time is over
	stop    context.CancelFunc
	begun   sync.WaitGroup // records that are neither queued nor dropped; none is added once over is set

	mu      sync.Mutex // guards the fields below
	over    bool       // no record begins any more
	open    map[*Record]struct{}
	problem string
}

func newSession(c fleet.Capture, node string, logger *slog.Logger, m *memory) *session {
	log := logger.With("capture", c.Name, "account", c.Account, "until", c.Until, "sink", c.Sink)
	s := &session{capture: c, node: node, log: log, memory: m, queue: make(chan *Record, queued), sink: newSink(c.Sink), open: map[*Record]struct{}{}}
	s.ended, s.stop = context.WithDeadline(context.Background(), c.Until)
	return s
}

// begin returns a new record, or nil if the capture is over: the recorder looks at the clock only now and then.
func (s *session) begin() *Record {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.capture.EndedAt(now) {
		return nil
	}
	r := &Record{capture: &s.capture, node: s.node, memory: s.memory, over: s.ended, onEnd: s.enqueue, began: now}
	s.open[r] = struct{}{}
	s.begun.Add(1)
	return r
}

// enqueue takes a record that has ended.
func (s *session) enqueue(r *Record) {
	defer s.begun.Done()
	s.mu.Lock()
	delete(s.open, r)
	s.mu.Unlock()
	select {
	case s.queue <- r:
	default:
		s.drop(r)
	}
}

func (s *session) drop(r *Record) {
	s.dropped.Add(1)
	s.memory.give(r.held())
}

// run writes records until the capture or ctx ends, and for a moment longer what was captured until then.
func (s *session) run(ctx context.Context) {
	defer s.stop()
	defer s.sink.close()
	defer context.AfterFunc(ctx, s.stop)()
	writing, cancel := context.WithCancel(context.Background()) // until lastWrites after the end
	defer cancel()
	defer context.AfterFunc(s.ended, func() { time.AfterFunc(lastWrites, cancel) })()
	s.log.Warn("capturing requests and responses with their content")
	var reminding sync.WaitGroup
	reminding.Go(s.remind)
	for s.ended.Err() == nil {
		select {
		case r := <-s.queue:
			s.write(writing, r)
		case <-s.ended.Done():
		}
	}
	s.finish(writing)
	reminding.Wait()
	s.log.Warn("capture has ended", "written", s.written.Load(), "dropped", s.dropped.Load())
}

// remind logs that the capture goes on, until it ends, also while a write is tried again and again.
func (s *session) remind() {
	for ctxtime.Sleep(s.ended, remindEvery) {
		s.log.Warn("still capturing requests and responses with their content", "written", s.written.Load(), "dropped", s.dropped.Load())
	}
}

// finish ends all open records, and writes what the sink takes until ctx ends.
func (s *session) finish(ctx context.Context) {
	s.mu.Lock()
	s.over = true
	var open []*Record
	for r := range s.open {
		open = append(open, r)
	}
	s.mu.Unlock()
	for _, r := range open {
		r.endEarly()
	}
	s.begun.Wait() // for a request that ends just now, too
	for {
		select {
		case r := <-s.queue:
			s.write(ctx, r)
		default:
			return
		}
	}
}

// write writes a record, and those that wait behind it up to batchBytes. It tries again until ctx ends.
func (s *session) write(ctx context.Context, first *Record) {
	batch := []*Record{first}
	lines := first.appendLine(nil)
	for more := true; more && len(lines) < batchBytes; {
		select {
		case r := <-s.queue:
			batch, lines = append(batch, r), r.appendLine(lines)
		default:
			more = false
		}
	}
	for {
		err := s.sink.write(ctx, lines)
		if err == nil {
			s.note("")
			s.written.Add(int64(len(batch)))
			for _, r := range batch {
				s.memory.give(r.held())
			}
			return
		}
		s.note(err.Error())
		if ctxtime.Sleep(ctx, retryEvery) {
			continue
		}
		for _, r := range batch {
			s.drop(r)
		}
		return
	}
}

// note notes why the sink takes nothing, and logs when that changes.
func (s *session) note(problem string) {
	s.mu.Lock()
	before := s.problem
	s.problem = problem
	s.mu.Unlock()
	if problem != "" && before == "" {
		s.log.Error("cannot write a capture; trying again until it ends", "error", problem)
	}
}

// State is a capture in force.
type State struct {
	Name    string    `json:"name"`
	Account string    `json:"account"`
	Until   time.Time `json:"until"`
	Sink    string    `json:"sink"`
	Written int64     `json:"written"`           // records
	Dropped int64     `json:"dropped"`           // records that did not fit
	Problem string    `json:"problem,omitempty"` // why the sink takes nothing at present
}

func (s *session) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{
		Name: s.capture.Name, Account: s.capture.Account, Until: s.capture.Until, Sink: s.capture.Sink,
		Written: s.written.Load(), Dropped: s.dropped.Load(), Problem: s.problem,
	}
}
