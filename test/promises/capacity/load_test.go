package capacity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// load is an open load: each request is sent when it is due, also if those before were not answered yet.
type load struct {
	f   *fleettest.Fleet
	ctx context.Context // ends those that run
	all sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	sent  map[string]*sending
	delay []time.Duration // from when each request was due to when it was sent
}

// sending is one request with its response.
type sending struct {
	flow     *flow
	name     string
	at       time.Time
	deadline time.Duration // 0 = none
	a        wiretest.Response
	answered time.Time
}

// flow describes the requests of one kind.
type flow struct {
	name, model, key string
	every            time.Duration
	tokens           int
	deadline         func(n int) time.Duration // the client's, of the nth request; nil = none
}

func newLoad(ctx context.Context, f *fleettest.Fleet) *load {
	return &load{f: f, ctx: ctx, sent: map[string]*sending{}}
}

// run sends the requests of all flows for so long, and returns when it began. wait must follow.
func (l *load) run(length time.Duration, flows ...*flow) time.Time {
	began := time.Now()
	var clocks sync.WaitGroup
	for _, flow := range flows {
		clocks.Go(func() {
			for n := 0; ; n++ {
				due := time.Duration(n) * flow.every
				if due >= length || l.ctx.Err() != nil {
					return
				}
				time.Sleep(time.Until(began.Add(due)))
				l.note(time.Since(began.Add(due)))
				l.all.Go(func() { l.once(flow, n) })
			}
		})
	}
	clocks.Wait()
	return began
}

func (l *load) wait() { l.all.Wait() }

func (l *load) note(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = append(l.delay, delay)
}

// isLate reports whether this process was so late to send that the machine was too busy for rates to mean anything.
func (l *load) isLate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.delay)
	p90 := l.delay[len(l.delay)*9/10]
	l.f.T.Logf("requests were sent %v late (p90)", p90)
	return !testkit.Soak() && p90 > 5*time.Millisecond
}

func (l *load) once(flow *flow, n int) {
	name := fmt.Sprintf("%s-%d", flow.name, n)
	s := &sending{flow: flow, name: name, at: time.Now()}
	headers := []string{"Authorization", flow.key}
	if flow.deadline != nil && flow.deadline(n) > 0 {
		s.deadline = flow.deadline(n)
		headers = append(headers, "x-colonnade-deadline-ms", strconv.FormatInt(s.deadline.Milliseconds(), 10))
	}
	// A deadline is for the first byte, so it comes with a stream.
	body := fmt.Sprintf(`{"model":%q,"max_tokens":%d,"user":%q,"stream":%v,"messages":[]}`, flow.model, flow.tokens, name, s.deadline > 0)
	a, err := l.f.Post(l.ctx, "/chat/completions", body, headers...)
	if err == nil {
		err = a.Err
	}
	if l.ctx.Err() != nil {
		return // cancelled
	}
	if err != nil || a.Status == http.StatusOK && !a.Complete() {
		l.f.T.Errorf("%s: %v", name, err)
	}
	s.a, s.answered = a, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[name] = s
}

// byStatus returns the requests of a flow by the status of their response.
func (l *load) byStatus(flow *flow) map[int][]*sending {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[int][]*sending{}
	for _, s := range l.sent {
		if s.flow == flow {
			all[s.a.Status] = append(all[s.a.Status], s)
		}
	}
	return all
}

// queued returns how long the request waited, by its response.
func (s *sending) queued() time.Duration {
	ms, _ := strconv.Atoi(s.a.Header.Get("x-colonnade-queued-ms"))
	return time.Duration(ms) * time.Millisecond
}

// arrival is a request in an engine's record.
type arrival struct {
	name string
	at   time.Time
}

// arrivalsAt returns an engine's record in order of time.
func (l *load) arrivalsAt(e *simengine.Engine) (all []arrival) {
	l.f.T.Helper()
	for _, r := range e.Received() {
		var body struct {
			User string `json:"user"`
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			l.f.T.Fatalf("an engine's record: %v: %q", err, r.Body)
		}
		if body.User != "" {
			all = append(all, arrival{body.User, r.At})
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return a.at.Compare(b.at) })
	return all
}
