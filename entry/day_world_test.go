package entry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
)

// daySize is the size of a simulated fleet.
type daySize struct {
	colosPerCity int
	everyCity    int // 2 = every second city has colos
	endpoints    int
	hour         time.Duration // of virtual time for an hour of the day
}

// dayConcurrency is the number of slots of each endpoint.
const dayConcurrency = 1

// dayVariant is one simulated day.
type dayVariant struct {
	size      daySize
	seed      uint64
	algorithm string
	onward    bool    // colos forward requests by themselves
	failing   float64 // least probability that an engine fails a request
}

// day is a fleet during a simulated day. All its time is virtual, but the entries are real ones.
type day struct {
	dayVariant
	schedule daySchedule
	network  dayNetwork
	table    *fleet.Table
	model    *fleet.Model
	colos    []*dayColo
	byName   map[string]*dayColo
	entries  []*dayEntry
	response *transport.Response // of every request that is served
	began    time.Time
	clients  sync.WaitGroup
	counters *dayCounters
}

// dayEntry is an entry of the fleet, in the first city of its region.
type dayEntry struct {
	*Entry
	index  int
	region dayRegion
	city   int
	rate   float64 // requests per second, as a mean over the day
}

// newDay returns the fleet. The caller runs it in a bubble of testing/synctest.
func newDay(t *testing.T, v dayVariant) *day {
	d := &day{
		dayVariant: v, schedule: daySchedule{v.size.hour}, byName: map[string]*dayColo{},
		response: transport.NewResponse(200, "application/json", nil),
	}
	var cities []dayCity
	var documents strings.Builder
	d.writeModel(&documents)
	regions := dayRegions()
	for i := range regions {
		r := &regions[i]
		d.entries = append(d.entries, &dayEntry{index: i, region: *r, city: len(cities)})
		for j, city := range r.cities {
			cities = append(cities, city)
			if j%v.size.everyCity == 0 {
				d.addColos(&documents, r.name, city, len(cities)-1)
			}
		}
	}
	d.counters = newDayCounters(len(d.entries))
	d.network = newDayNetwork(cities)
	d.addSlots(regions)
	d.writeFlow(&documents)
	d.table = tableOf(t, documents.String())
	d.model, _ = d.table.Model("m")
	for _, e := range d.entries {
		d.startEntry(t, e)
	}
	return d
}

// writeModel writes the model's document.
func (d *day) writeModel(to *strings.Builder) {
	below := "256KiB"
	if !d.onward {
		below = "0"
	}
	fmt.Fprintf(to, "key: models/m\nretry: {forward_below: %s, out_of_capacity: 8}\nrouting:\n  algorithm: %s\n", below, d.algorithm)
	if d.algorithm == fleet.AlgorithmSteps {
		to.WriteString(daySteps)
	}
}

// daySteps is the routing of the algorithm steps: circles that widen, in each by free slots.
const daySteps = `  steps:
    - {within: 30ms, pick: least_loaded, attempts: 1}
    - {within: 100ms, pick: least_loaded, attempts: 1}
    - {within: 200ms, pick: least_loaded}
`

// addColos adds the colos of a city, and their documents.
func (d *day) addColos(to *strings.Builder, region string, city dayCity, at int) {
	for range d.size.colosPerCity {
		c := &dayColo{day: d, index: len(d.colos), name: fmt.Sprintf("%s-%d", city.name, len(d.colos)), region: region, city: at}
		c.lostFrom, c.lostTo = d.schedule.lost(region)
		d.colos, d.byName[c.name] = append(d.colos, c), c
		fmt.Fprintf(to, "---\nkey: colos/%s\nregion: %s\nposition: {lat: %v, lon: %v}\n", c.name, region, city.position.Lat, city.position.Lon)
		fmt.Fprintf(to, "---\nkey: servers/%s/a\naddress: 127.0.0.1:1\nboot: b%d\nprotocol: {min: 1, max: %d}\n", c.name, c.index, fleet.Protocol)
	}
}

// addSlots gives each colo its slots, by its region's share. The colos of a region differ by up to a factor of three.
func (d *day) addSlots(regions []dayRegion) {
	var sum float64
	weight := func(c *dayColo, r dayRegion, inRegion int) float64 {
		return r.capacity * (0.5 + float64(c.index%5)/4) / float64(inRegion)
	}
	byRegion := map[string][]*dayColo{}
	for _, c := range d.colos {
		byRegion[c.region] = append(byRegion[c.region], c)
	}
	each := func(f func(*dayColo, float64)) {
		for _, r := range regions {
			for _, c := range byRegion[r.name] {
				f(c, weight(c, r, len(byRegion[r.name])))
			}
		}
	}
	each(func(_ *dayColo, w float64) { sum += w })
	each(func(c *dayColo, w float64) { c.endpoints = max(1, int(math.Round(w/sum*float64(d.size.endpoints)))) })
	clients := 0.0
	for _, r := range regions {
		clients += r.clients
	}
	for _, e := range d.entries {
		e.rate = e.region.clients / clients * dayMeanLoad * float64(d.slots()) / dayMeanHold.Seconds()
	}
}

// slots returns the number of slots of the fleet.
func (d *day) slots() int {
	n := 0
	for _, c := range d.colos {
		n += c.endpoints * dayConcurrency
	}
	return n
}

// writeFlow writes flows by hand, as an operator might: a colo's weight is that of its slots, less the farther it is. The others have no weight,
// and so come last, by their distance: with all of them, the document would be larger than a document may be.
func (d *day) writeFlow(to *strings.Builder) {
	to.WriteString("---\nkey: flows/m\nregions:\n")
	for _, e := range d.entries {
		fmt.Fprintf(to, "  %s:\n", e.region.name)
		for _, c := range d.colos {
			far := float64(d.network[e.city][c.city]) / float64(50*time.Millisecond)
			if near := 1 / (1 + far*far*far); near > 0.1 {
				fmt.Fprintf(to, "    %s: %.2f\n", c.name, near*float64(c.endpoints))
			}
		}
	}
}

// startEntry makes the entry of a region. It asks colos by function calls.
func (d *day) startEntry(t *testing.T, e *dayEntry) {
	ask := map[string]peer.Func{}
	for _, c := range d.colos {
		ask[c.name] = func(ctx context.Context, r *peer.Request) (*peer.Answer, error) { return c.askFrom(ctx, e, r) }
	}
	var err error
	e.Entry, err = New(Config{
		Node: "edge-" + e.region.name, Region: e.region.name, Position: &e.region.cities[0].position,
		Keys: hop.RandomKeys(), Table: func() *fleet.Table { return d.table }, Metrics: metrics.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Local: func(s *fleet.Server) peer.Func { return ask[s.Colo] },
	})
	if err != nil {
		t.Fatal(err)
	}
	e.observed.isLocal = func(*fleet.Server) bool { return false } // the network is between them
	e.observed.random = func() float64 { return float64(d.now()%dayGrid) / float64(dayGrid) }
}

// run simulates the day, in a bubble, and waits for all clients. Then it ends the entries, which cannot leave the bubble either.
func (d *day) run() error {
	d.began = time.Now()
	for _, c := range d.colos {
		c.open(d.table)
	}
	for _, e := range d.entries {
		d.clients.Go(func() { d.arrivals(e) })
		d.clients.Go(func() { d.pings(e) })
	}
	d.clients.Wait()
	var errs []error
	for _, e := range d.entries {
		errs = append(errs, e.Shutdown(context.Background(), server.DrainTimings{}))
	}
	return errors.Join(errs...)
}

// now returns the virtual time since midnight.
func (d *day) now() time.Duration { return time.Since(d.began) }

// arrivals sends the clients of a region to its entry, as a Poisson process whose rate follows the sun.
func (d *day) arrivals(e *dayEntry) {
	random := rand.New(rand.NewPCG(d.seed, uint64(e.index)))
	longitude := e.region.cities[0].position.Lon
	at := time.Duration(0)
	for n := 0; ; {
		at += time.Duration(random.ExpFloat64() / (e.rate * (1 + daySwing)) * float64(time.Second))
		if at >= d.schedule.at(24) {
			return
		}
		if random.Float64()*(1+daySwing) > d.schedule.demand(longitude, at) {
			continue
		}
		c := newDayClient(d, e, n%dayPinger)
		n++
		c.sleepUntil(at)
		d.clients.Go(c.run)
	}
}
