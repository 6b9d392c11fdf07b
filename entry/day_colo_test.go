package entry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// dayColo is a colo with a real pool of permits. Its server follows the rules of package colo; its engines only take time.
type dayColo struct {
	day       *day
	index     int
	name      string
	region    string
	city      int
	endpoints int
	queue     fleet.Queue
	pool      *permits.Pool
	budget    *hop.RetryBudget

	lostFrom, lostTo time.Duration // nothing reaches it then, and nothing comes from it
}

// open gives the colo its pool, in the bubble: a pool reads the clock.
func (k *dayColo) open(t *fleet.Table) {
	document := t.Pool(k.day.model.Pool)
	k.queue, k.budget = document.Queue, hop.NewRetryBudget()
	k.pool = permits.New(permits.Config{
		Discipline: permits.Fair, Limit: k.queue.Limit, PerAccount: k.queue.PerAccount, Bytes: int64(k.queue.Bytes),
		MaxWait: k.queue.MaxWait.Std(), PromoteAfter: k.queue.PromoteAfter.Std(),
	})
	endpoints := make([]permits.Endpoint, k.endpoints)
	for i := range endpoints {
		endpoints[i] = permits.Endpoint{ID: fmt.Sprint(i), Concurrency: dayConcurrency}
	}
	k.pool.SetEndpoints(endpoints)
}

// lost reports whether the colo is silent at a time.
func (k *dayColo) lost(at time.Duration) bool { return at >= k.lostFrom && at < k.lostTo }

var errDayLost = errors.New("the colo is lost")

// askFrom sends a request to the colo from an entry, which observes the round trip.
func (k *dayColo) askFrom(ctx context.Context, e *dayEntry, r *peer.Request) (*peer.Answer, error) {
	began := k.day.now()
	answer, err := k.ask(ctx, e.city, r)
	if err != nil {
		return nil, err
	}
	e.observed.state(k.name).noteAnswered(k.day.now()-began-answer.Took, true, time.Now())
	return answer, nil
}

// ask sends a request to the colo from a city, and returns the answer as it arrives there.
func (k *dayColo) ask(ctx context.Context, from int, r *peer.Request) (*peer.Answer, error) {
	c := ctx.Value(dayClientKey{}).(*dayClient)
	asked := c.noteAsked(k, r.Token.Wait)
	sent := k.day.now()
	if k.lost(sent) {
		c.sleepUntil(sent + r.Limits.Connect)
		c.forgetAsked(asked - 1) // it did not get the request: another colo that cannot connect it proves nothing to the entry
		return nil, &transport.ExchangeError{Phase: transport.PhaseConnect, Timeout: true, Err: errDayLost}
	}
	within, cancel := c.untilLost(ctx, k)
	defer cancel()
	c.travel(from, k.city)
	arrived := k.day.now()
	answer := k.serve(within, c, r)
	if k.goesOn(r, answer) {
		answer = k.goOn(within, c, r, answer)
	}
	if sent < k.lostFrom && k.day.now() >= k.lostFrom {
		c.giveBack()
		c.forgetAsked(asked)                   // the entry cannot know of colos that this one has asked before it was lost
		c.sleepUntil(k.lostFrom + time.Second) // then the entry's watch of silent servers gives it up
		return nil, peer.ErrSilent
	}
	answer.Took, answer.HasTook = k.day.now()-arrived, true
	c.travel(k.city, from)
	return answer, nil
}

// untilLost returns a context that ends when the colo is lost, if a request could still wait in its queue then.
func (c *dayClient) untilLost(ctx context.Context, k *dayColo) (context.Context, context.CancelFunc) {
	now := c.day.now()
	if now > k.lostFrom || now+2*k.queue.MaxWait.Std() < k.lostFrom {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.nearest(k.lostFrom+dayGrid)-now)
}

// giveBack gives back the permit of a request whose answer cannot be delivered.
func (c *dayClient) giveBack() {
	if c.served != nil {
		c.permit.Release()
		c.served, c.cut = nil, false
	}
}

// serve is what the colo's server does with a request: package colo has the rules.
func (k *dayColo) serve(ctx context.Context, c *dayClient, r *peer.Request) *peer.Answer {
	k.budget.Begin()
	defer k.budget.End()
	answer := &peer.Answer{HasLoad: true}
	endpointsFailed, retries := r.Token.EndpointsFailed, r.Token.RetriesLeft
	var failed []string
	for {
		began := k.day.now()
		wanted := k.permitRequest(c, r, answer.Queued, failed)
		permit, err := k.pool.Acquire(ctx, &wanted)
		answer.Queued += k.day.now() - began
		var full *permits.Refusal
		if err != nil {
			if errors.As(err, &full) {
				k.refuse(answer, full)
			}
			break // else the colo is lost, and its answer with it
		}
		answer.Attempts++
		c.day.counters.attempted(c.entry.index)
		if c.random.Float64() >= max(c.day.failing, c.day.schedule.failing(k.region, c.day.now())) {
			c.sleep(dayFirstByte)
			c.holds(k, permit)
			answer.Response = c.day.response
			break
		}
		c.sleep(dayFirstByte)
		permit.ReleaseUnserved()
		c.sleep(dayGrid)
		endpointsFailed++
		failed = append(failed, permit.Endpoint())
		if retries == 0 || endpointsFailed >= hop.MaxEndpointsFailed || !k.budget.Take() {
			answer.Error = openai.EngineFailed(reasons.EngineStatus)
			answer.Verdict = hop.Verdict{Kind: hop.VerdictError, Reason: reasons.EngineStatus}
			break
		}
		retries--
	}
	l := k.pool.Load()
	answer.Load = hop.Load{Free: l.Free, Held: l.Held, Limit: l.Limit, Queued: l.Queued, Expected: l.Expected, Known: l.Known}
	answer.RetriesMade = max(answer.Attempts-1, 0)
	if answer.Error != nil {
		answer.Verdict.Number = answer.Error.Number
		answer.Verdict.EndpointsFailed, answer.Verdict.RetriesMade = endpointsFailed, answer.RetriesMade
	}
	return answer
}

func (k *dayColo) refuse(a *peer.Answer, r *permits.Refusal) {
	a.Error = openai.OutOfCapacity(string(r.Reason), r.RetryAfter)
	a.Verdict = hop.Verdict{
		Kind: hop.VerdictOOC, Reason: string(r.Reason), RetryAfter: r.RetryAfter, RetryInterval: r.RetryInterval, Expected: r.Expected, MayWait: r.MayWait,
	}
}

// holds notes the permit of an answer that begins now, and when it ends.
func (c *dayClient) holds(k *dayColo, permit permits.Permit) {
	c.permit, c.served, c.ends = permit, k, c.day.now()+c.hold
	c.relayedBy(k)
}

// relayedBy notes that the answer passes through a colo.
func (c *dayClient) relayedBy(k *dayColo) {
	if c.day.now() < k.lostFrom && c.ends >= k.lostFrom {
		c.ends, c.cut = k.lostFrom, true
	}
}

// permitRequest asks for a permit as package colo does.
func (k *dayColo) permitRequest(c *dayClient, r *peer.Request, queued time.Duration, failed []string) permits.Request {
	waited := time.Duration(r.Token.Waited) + queued
	out := permits.Request{
		Account: r.Token.Account, Weight: float64(r.Token.Weight), Band: permits.Standard, Bytes: int64(len(r.Body)), MaxExpected: -1,
		ReturnProbability: r.Token.ReturnProbability, JitterFraction: c.jitter,
		Arrived: time.Now().Add(-waited), Rejoin: len(failed) > 0, Avoid: failed,
	}
	left := k.queue.MaxWait.Std() - waited
	switch r.Token.Wait {
	case hop.WaitFull:
		out.MaxWait = left
	case hop.WaitSpill:
		out.MaxExpected = max(k.queue.SpillWait.Std(), time.Duration(r.Token.WaitBelow))
		out.MaxWait = min(4*out.MaxExpected, left)
		if len(failed) > 0 {
			out.MaxWait = min(out.MaxWait, out.MaxExpected)
		}
	}
	out.MaxWait -= out.MaxWait % dayGrid // a wait ends at one of the client's times, too
	return out
}
