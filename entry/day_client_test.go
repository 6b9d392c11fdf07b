package entry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/permits"
)

const (
	dayReturns  = 3 // how often a client that was refused comes back, each time after the Retry-After that it got
	dayAccounts = 40
	dayShort    = 6 << 10 // bytes of most bodies
	dayLong     = 400 << 10
	dayAnswer   = 40 << 10
)

// dayClient is one client with one request, which it repeats when it is refused. One goroutine uses it at a time.
type dayClient struct {
	day     *day
	entry   *dayEntry
	name    string
	residue time.Duration
	random  *rand.Rand
	account *fleet.Account
	body    []byte
	hold    time.Duration // from the first byte of its answer to the last
	jitter  float64

	// Of the request under way.
	asked     []dayAsked
	forgotten int // more colos that got it
	permit    permits.Permit
	served    *dayColo      // that has given the permit; nil = none
	ends      time.Duration // when the engine is done with it
	cut       bool          // its colo is lost before

	coloBytes int64 // sent between colos
}

// dayAsked is one colo that got the request.
type dayAsked struct {
	colo *dayColo
	wait hop.Wait
}

type dayClientKey struct{}

// Each client acts only at times that are congruent to a number of its own, modulo dayGrid: so two clients never act at the same time, and
// the order of all that happens is the same in each run, however many processors run the goroutines.
const (
	dayGrid    = time.Duration(1 << 20)             // 1.05 ms
	dayEntries = 16                                 // most entries
	dayPings   = 1024                               // numbers of pings, which act like clients
	dayPinger  = int(dayGrid)/dayEntries - dayPings // their first number
)

// newDayClient returns a client by its number, counted by entry. Numbers are used again after a while.
func newDayClient(d *day, e *dayEntry, number int) *dayClient {
	c := &dayClient{
		day: d, entry: e, name: fmt.Sprintf("%s-%d", e.region.name, number),
		residue: time.Duration(number*dayEntries + e.index),
		random:  rand.New(rand.NewPCG(d.seed^0x9e3779b97f4a7c15, uint64(number)<<8|uint64(e.index))),
	}
	c.account = &fleet.Account{Name: fmt.Sprintf("%s-%d", e.region.name, int(dayAccounts*c.random.Float64()*c.random.Float64())), Weight: 1, Priority: fleet.PriorityStandard}
	c.body = dayBodies[:dayShort]
	if c.random.Float64() < dayLongBody {
		c.body = dayBodies
	}
	c.hold = time.Duration(c.random.ExpFloat64() * float64(dayMeanHold-dayFirstByte))
	c.jitter = 1 - c.random.Float64()
	return c
}

var dayBodies = make([]byte, dayLong)

// nearest returns the client's time that is nearest to a time.
func (c *dayClient) nearest(at time.Duration) time.Duration {
	return (at-c.residue+dayGrid/2)/dayGrid*dayGrid + c.residue
}

// sleepUntil sleeps until the client's time that is nearest to a time, and not at all if that is past.
func (c *dayClient) sleepUntil(at time.Duration) { time.Sleep(c.nearest(at) - c.day.now()) }

func (c *dayClient) sleep(d time.Duration) { c.sleepUntil(c.day.now() + d) }

// travel sleeps for half of a round trip, which takes up to a tenth longer than the network's least.
func (c *dayClient) travel(from, to int) {
	c.sleep(time.Duration(float64(c.day.network[from][to]) / 2 * (1 + 0.1*c.random.Float64())))
}

// run is the client's life: it comes back when it is refused, dayReturns times at most.
func (c *dayClient) run() {
	n, hour := dayCounts{clients: 1}, c.day.schedule.hourOf(c.day.now())
	defer func() { c.day.counters.count(c.entry.index, hour, n) }()
	for try := 0; ; try++ {
		err := c.request(try)
		switch {
		case err == nil && c.cut:
			n.cut = 1
			return
		case err == nil:
			n.served = 1
			return
		case try == dayReturns:
			n.gaveUp = 1
			return
		}
		c.sleep(max(err.RetryAfter, time.Second))
	}
}

// request sends the request once. It returns the error that the client gets, or nil once the answer has ended.
func (c *dayClient) request(try int) *openai.Error {
	c.asked, c.forgotten, c.served, c.cut, c.coloBytes = c.asked[:0], 0, nil, false, 0
	arrived := c.day.now()
	in := c.call(try)
	var err *openai.Error
	if in.startAttempts(c.day.table, "", queueDefault, c.random.Uint64()); in.tryColos() == nil {
		err = in.clientError()
	}
	c.note(in, arrived, err)
	if err == nil {
		c.sleepUntil(c.ends)
		c.permit.Release()
	}
	in.close()
	return err
}

// note counts a request that has got its answer, or an error.
func (c *dayClient) note(in *call, arrived time.Duration, err *openai.Error) {
	now := c.day.now()
	n := dayCounts{requests: 1, asked: len(c.asked) + c.forgotten, coloBytes: c.coloBytes}
	switch {
	case err == nil:
		n.answered, n.added, n.waited = 1, now-arrived-dayFirstByte, in.waited
		n.network = c.day.network[c.entry.city][c.served.city]
		c.day.counters.noteAdded(n.added)
	case err.Status == http.StatusTooManyRequests:
		n.refused = 1
	default:
		n.failed = 1
	}
	c.day.counters.count(c.entry.index, c.day.schedule.hourOf(arrived), n)
}

// call returns the call of the request as it is after the entry has read it.
func (c *dayClient) call(try int) *call {
	e := c.entry
	in := e.newCall(&fasthttp.RequestCtx{}, time.Now())
	in.Context = context.WithValue(in.Context, dayClientKey{}, c)
	in.id = fmt.Sprintf("%s-%d", c.name, try)
	in.route = openai.Route{API: openai.Chat, Path: "/v1/chat/completions"}
	in.caller = accounts.Caller{Account: c.account, KeyID: "k"}
	in.raw, in.model, in.priority = c.body, c.day.model, c.account.Priority
	e.active.add(in.model.Name, 1)
	in.deadline = in.arrived.Add(in.model.Timeouts.Total.Std())
	return in
}

// forgetAsked forgets colos that got the request, but for the first n.
func (c *dayClient) forgetAsked(n int) {
	c.forgotten += len(c.asked) - n
	c.asked = c.asked[:n]
}

// noteAsked notes that a colo got the request, and returns how many have got it.
func (c *dayClient) noteAsked(colo *dayColo, wait hop.Wait) int {
	again := slices.IndexFunc(c.asked, func(a dayAsked) bool { return a.colo == colo })
	if again >= 0 && (wait != hop.WaitFull || c.asked[again].wait == hop.WaitFull) {
		c.day.counters.fault("%s asked %s twice", c.name, colo.name)
	}
	c.asked = append(c.asked, dayAsked{colo, wait})
	return len(c.asked)
}
