package fairqueue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"colonnade/fairqueue"
	"colonnade/internal/testkit"
)

// script decides what a sequence of operations does.
type script func(n int) int // a number in [0, n)

func fromBytes(data []byte) (s script, more func() bool) {
	return func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := int(data[0])
		data = data[1:]
		return b % n
	}, func() bool { return len(data) > 0 }
}

// pair drives a queue and the model through the same operations, and compares all that can be observed of them.
type pair struct {
	t       *testing.T
	pick    script
	queue   *fairqueue.Queue
	model   *model
	now     time.Time
	waiting []*fairqueue.Item
	running []run
	log     []string
}

type run struct {
	claim   fairqueue.Claim
	run     fairqueue.Running
	charged modelCost
}

func newPair(t *testing.T, pick script) *pair {
	p := &pair{t: t, pick: pick, now: time.Unix(1000, 0)}
	c := p.config()
	p.queue, p.model = fairqueue.New(c), newModel(c)
	p.note("New(%+v)", c)
	return p
}

func (p *pair) note(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

func (p *pair) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("after\n%s\n%s", fmt.Sprint(p.log[max(0, len(p.log)-40):]), fmt.Sprintf(format, args...))
}

func (p *pair) config() fairqueue.Config {
	return fairqueue.Config{
		Discipline:   fairqueue.Discipline(p.pick(5) / 4), // mostly Fair
		Limit:        []int{8, 3, 0, 100}[p.pick(4)],
		PerAccount:   []int{4, 100, 1}[p.pick(3)],
		Bytes:        []int64{300, 1000, 40}[p.pick(3)],
		PromoteAfter: time.Duration(p.pick(3)) * 3 * time.Second,
		MaxShare:     []float64{1, 0.5, 0.01}[p.pick(3)],
		Slots:        []int{6, 4, 0}[p.pick(3)],
		Learn:        p.pick(3) > 0,
	}
}

func (p *pair) claim() fairqueue.Claim {
	account := p.pick(6)
	weight := float64(int(1) << (account % 3)) // 1, 2, 4; a few change
	if p.pick(16) == 0 {
		weight = 0.5
	}
	return fairqueue.Claim{
		Account:    string(rune('a' + account)),
		Weight:     weight,
		Band:       fairqueue.Band(p.pick(3)),
		Cost:       []float64{1, 1, 0.5, 8}[p.pick(4)],
		Output:     []float64{0, 0, 2}[p.pick(3)],
		Outputs:    []float64{0, 0, 3}[p.pick(3)],
		Concurrent: []int{0, 0, 2, 1}[(account+p.pick(8)/7)%4],
	}
}

func (p *pair) item() *fairqueue.Item {
	return &fairqueue.Item{Claim: p.claim(), Bytes: int64(p.pick(5) * 20), Arrived: p.now, Value: p.pick(4)}
}

func (p *pair) step() {
	p.now = p.now.Add(time.Duration(p.pick(3)) * time.Second)
	switch op := p.pick(16); {
	case op < 5:
		p.push(p.item())
	case op == 5:
		it := p.item()
		it.Arrived = p.now.Add(-time.Duration(p.pick(12)) * time.Second)
		p.rejoin(it)
	case op == 6 && len(p.waiting) > 0:
		p.remove(p.waiting[p.pick(len(p.waiting))])
	case op < 10:
		p.next()
	case op < 12:
		p.start(p.claim())
	case op < 15 && len(p.running) > 0:
		p.finish(p.pick(len(p.running)))
	case op == 15 && p.pick(2) == 0 && len(p.running) > 0:
		p.charge(p.pick(len(p.running)))
	case op == 15 && p.pick(2) == 0:
		p.adopt(p.claim())
	case op == 15 && p.pick(2) == 0:
		p.configure(p.config())
	}
	p.compare()
}

func (p *pair) push(it *fairqueue.Item) {
	p.note("Push(%v, %d bytes)", it.Claim, it.Bytes)
	victims, err := p.queue.Push(it)
	wantVictims, wantErr := p.model.push(it)
	if err != wantErr || !slices.Equal(victims, wantVictims) {
		p.fail("got victims %v, %v, want %v, %v", claims(victims), err, claims(wantVictims), wantErr)
	}
	for _, v := range victims {
		p.waiting = without(p.waiting, v)
	}
	if err == nil {
		p.waiting = append(p.waiting, it)
	}
}

func (p *pair) rejoin(it *fairqueue.Item) {
	p.note("Rejoin(%v, %d bytes, %v old)", it.Claim, it.Bytes, p.now.Sub(it.Arrived))
	p.queue.Rejoin(it)
	p.model.rejoin(it)
	p.waiting = append(p.waiting, it)
}

func (p *pair) remove(it *fairqueue.Item) {
	p.note("Remove(%v)", it.Claim)
	if !p.queue.Remove(it) || p.queue.Remove(it) {
		p.fail("Remove did not report that it was in, once")
	}
	p.model.remove(it)
	p.waiting = without(p.waiting, it)
}

func (p *pair) next() {
	refused := p.pick(8) // which of four values is not accepted; from 4 on all are
	accept := func(it *fairqueue.Item) bool { return it.Value != refused }
	got, running := p.queue.Next(p.now, accept)
	want, cost := p.model.next(p.now, accept)
	p.note("Next(all but %d): %v", refused, claims([]*fairqueue.Item{got}))
	if got != want {
		p.fail("got %v, want %v", claims([]*fairqueue.Item{got}), claims([]*fairqueue.Item{want}))
	}
	if got != nil {
		p.waiting = without(p.waiting, got)
		p.running = append(p.running, run{got.Claim, running, cost})
	}
}

func (p *pair) start(c fairqueue.Claim) {
	p.note("Start(%v)", c)
	running, ok := start(p.queue, c)
	cost, want := p.model.start(c)
	if ok != want {
		p.fail("got %v, want %v", ok, want)
	}
	if ok {
		p.running = append(p.running, run{c, running, cost})
	}
}

func (p *pair) finish(i int) {
	r := p.running[i]
	used := []float64{r.charged.cost, 0, -1, 16}[p.pick(4)]
	if p.pick(2) == 0 {
		learned := fairqueue.Estimate{Input: []float64{2, 0, math.NaN()}[p.pick(3)], Output: []float64{4, 0, math.NaN(), 30}[p.pick(4)]}
		p.note("Learn(%v, %v)", r.claim, learned)
		p.queue.Learn(&r.run, learned)
		p.model.learn(r.claim, learned)
	}
	for range p.pick(6) {
		times := 1 + p.pick(4)
		p.note("ObserveHold(%v, %d)", r.claim, times)
		p.queue.ObserveHold(&r.run, time.Duration(times)*time.Second, time.Second)
		p.model.observeHold(r.claim, float64(times))
	}
	p.note("Finish(%v, %v)", r.claim, used)
	p.queue.Finish(&r.run, used)
	p.model.finish(r.claim, r.charged, used)
	p.running = slices.Delete(p.running, i, i+1)
}

func (p *pair) charge(i int) {
	r := &p.running[i]
	used := []float64{r.charged.cost + 3, r.charged.cost / 2, 40}[p.pick(3)]
	p.note("Charge(%v, %v)", r.claim, used)
	p.queue.Charge(&r.run, used)
	r.charged = p.model.charge(r.claim, r.charged, used)
}

func (p *pair) adopt(c fairqueue.Claim) {
	p.note("Adopt(%v)", c)
	p.queue.UpdateAccount(c)
	p.model.account(c)
}

func (p *pair) configure(c fairqueue.Config) {
	p.note("Configure(%+v)", c)
	p.queue.Configure(c)
	p.model.configure(c)
}

func (p *pair) compare() {
	p.model.forget(p.queue.Knows)
	if err := p.queue.Check(); err != nil {
		p.fail("%v", err)
	}
	if got, want := p.queue.Len(), len(p.model.waiting); got != want {
		p.fail("Len is %d, want %d", got, want)
	}
	if got, want := p.queue.Bytes(), p.model.held(p.model.waiting, true); got != want {
		p.fail("Bytes is %d, want %d", got, want)
	}
	n := 0
	for range p.queue.Items() {
		n++
	}
	if n != p.queue.Len() {
		p.fail("Items yields %d of %d", n, p.queue.Len())
	}
	c := p.claim()
	if got, want := p.queue.LenOf(c.Account), p.model.count(c.Account); got != want {
		p.fail("LenOf(%q) is %d, want %d", c.Account, got, want)
	}
	if got, want := p.queue.AtLimit(c), p.model.atLimit(c); got != want {
		p.fail("AtLimit(%v) is %v, want %v", c, got, want)
	}
	if got, want := p.queue.Ahead(c), p.model.ahead(c); math.Abs(got-want) > 1e-9 {
		p.fail("Ahead(%v) is %v, want %v", c, got, want)
	}
	if p.pick(8) == 0 {
		p.compareStates()
	}
}

func claims(items []*fairqueue.Item) (cs []fairqueue.Claim) {
	for _, it := range items {
		if it != nil {
			cs = append(cs, it.Claim)
		}
	}
	return cs
}

// Random sequences of operations do the same to a queue and to the model; 10^5 of them with COLONNADE_SOAK=1.
func TestAgainstModel(t *testing.T) {
	sequences := 600
	if testing.Short() {
		sequences = 200
	}
	for seed := range testkit.AtScale(sequences, 100_000) {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		p := newPair(t, r.IntN)
		for range 150 {
			p.step()
		}
		for len(p.running) > 0 {
			p.finish(0)
			p.compare()
		}
	}
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte("\x00\x00\x01\x00\x00\x00\x00" + "push push push next finish start rejoin remove"))
	for seed := range 8 {
		f.Add(testkit.RandomBytes(uint64(seed), 2, 400))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pick, more := fromBytes(data)
		p := newPair(t, pick)
		for steps := 0; more() && steps < 500; steps++ {
			p.step()
		}
	})
}
