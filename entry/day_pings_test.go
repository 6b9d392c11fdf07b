package entry

import (
	"math/rand/v2"
	"time"
)

// pings pings colos as [Entry.runPings] does, through the simulated network.
func (d *day) pings(e *dayEntry) {
	self := newDayClient(d, e, dayPinger)
	random := rand.New(rand.NewPCG(d.seed, uint64(e.index)<<32))
	for n := 1; d.now() < d.schedule.at(24); n++ {
		self.sleep(pingInterval)
		p, ok := e.observed.nextPing(time.Now())
		if !ok {
			continue
		}
		one := newDayClient(d, e, dayPinger+1+n%(dayPings-1))
		jitter := random.Float64()
		d.clients.Go(func() {
			r := one.ping(p.state.name)
			r.random = jitter
			p.state.endPing(r)
		})
	}
}

// ping pings a colo.
func (c *dayClient) ping(colo string) pingResult {
	k, began := c.day.byName[colo], c.day.now()
	if k.lost(began) {
		c.sleep(pingTimeout)
		return pingResult{failed: true, at: time.Now()}
	}
	c.travel(c.entry.city, k.city)
	c.travel(k.city, c.entry.city)
	return pingResult{roundTrip: c.day.now() - began, measured: true, at: time.Now()}
}
