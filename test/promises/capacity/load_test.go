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
	"colonnade/internal/wiretest"
)

// load is requests that come when they are due, whatever became of those before.
type load struct {
	f   *fleettest.Fleet
	ctx context.Context
	all sync.WaitGroup

	mu   sync.Mutex // guards the field below
	sent map[string]*sending
}

// sending is one request and what became of it.
type sending struct {
	flow     *flow
	name     string
	at       time.Time
	deadline time.Duration // 0 = none
	a        wiretest.Response
	answered time.Time
}

// flow is the requests of one kind.
type flow struct {
	name, model, key string
	every            time.Duration
	tokens           int
	hurry            func(n int) time.Duration // the client's deadline for the nth; nil = none
}

func newLoad(f *fleettest.Fleet, ctx context.Context) *load {
	return &load{f: f, ctx: ctx, sent: map[string]*sending{}}
}

// run sends all of them for a while, and returns when it began. wait must follow.
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
				l.all.Go(func() { l.once(flow, n) })
			}
		})
	}
	clocks.Wait()
	return began
}

func (l *load) wait() { l.all.Wait() }

func (l *load) once(flow *flow, n int) {
	name := fmt.Sprintf("%s-%d", flow.name, n)
	s := &sending{flow: flow, name: name, at: time.Now()}
	headers := []string{"Authorization", flow.key}
	if flow.hurry != nil && flow.hurry(n) > 0 {
		s.deadline = flow.hurry(n)
		headers = append(headers, "x-colonnade-deadline-ms", strconv.FormatInt(s.deadline.Milliseconds(), 10))
	}
	// Who is in a hurry wants to see something soon, and not the whole.
	body := fmt.Sprintf(`{"model":%q,"max_tokens":%d,"user":%q,"stream":%v,"messages":[]}`, flow.model, flow.tokens, name, s.deadline > 0)
	a, err := l.f.Post(l.ctx, "/chat/completions", body, headers...)
	if err == nil {
		err = a.Err
	}
	if l.ctx.Err() != nil {
		return // nobody waits for the rest
	}
	if err != nil || a.Status == http.StatusOK && !a.Complete() {
		l.f.T.Errorf("%s: %v", name, err)
	}
	s.a, s.answered = a, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[name] = s
}

// of returns what became of the requests of a flow, by status.
func (l *load) of(flow *flow) map[int][]*sending {
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

// queued is how long it waited, by its answer.
func (s *sending) queued() time.Duration {
	ms, _ := strconv.Atoi(s.a.Header.Get("x-colonnade-queued-ms"))
	return time.Duration(ms) * time.Millisecond
}

// arrival is a request as its engine got it.
type arrival struct {
	name string
	at   time.Time
}

// arrivalsAt reads an engine's own record, in order of time.
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
