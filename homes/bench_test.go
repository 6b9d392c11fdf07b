package homes_test

import (
	"fmt"
	"testing"
	"time"

	"colonnade/homes"
)

const (
	benchServers = 20
	benchEngines = 1000
)

func benchURL(i int) string { return fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250) }

func benchProcess(i int) homes.Process {
	return homes.Process{Node: fmt.Sprintf("ams-%d", i+1), Boot: "0123456789abcdef"}
}

// benchColo is a colo of 20 servers and 1000 engines, as the first server sees it, which is the home of some of the engines. Of the others'
// engines each server owns as many; of those at home here, each server holds requests on some.
type benchColo struct {
	*homes.Ownership
	held     map[string]int
	records  []homes.Record
	revision int64
}

func newBenchColo(b *testing.B, home int) *benchColo {
	c := &benchColo{Ownership: homes.NewOwnership(benchProcess(0), time.Second), held: map[string]int{}, revision: 100}
	engines := map[string]bool{}
	for i := range benchServers {
		c.records = append(c.records, homes.Record{Process: benchProcess(i), Revision: int64(i + 1), Owns: map[string]int{}, Held: map[string]int{}})
	}
	for i := range benchEngines {
		url := benchURL(i)
		engines[url] = i < home
		another := 1 + i%(benchServers-1)
		if c.held[url] = 8; i < home {
			c.records[another].Held[url] = 2
		} else {
			c.records[another].Owns[url] = 0
		}
	}
	c.Registered(nil)
	c.Want(engines, start)
	c.Observe(homes.Change{Revision: c.revision, Listed: true, Put: c.records}, false, start)
	c.put(b)
	return c
}

// put has the next put stand, and observes it.
func (c *benchColo) put(b *testing.B) {
	b.Helper()
	next, _, ok := c.Next(c.held, nil)
	if !ok {
		b.Fatal("there is nothing to put")
	}
	c.revision++
	c.PutStands(next, c.revision, start)
	c.observe(b, homes.Record{Process: benchProcess(0), Revision: c.revision, Owns: next.Owns, Held: next.Held})
}

func (c *benchColo) observe(b *testing.B, r homes.Record) {
	b.Helper()
	if !c.Observe(homes.Change{Revision: c.revision, Put: []homes.Record{r}}, false, start) {
		b.Fatal("the process must register again")
	}
}

// BenchmarkStep is one step of the rules with 20 servers and 1000 engines, of which the server is the home of 50, or of all: the change of
// another server's record, up to the new grants and the next put; a table, likewise; and the own entry that comes back for all engines
// that the server wants. No pool's mutex is held meanwhile: the rules know of none.
func BenchmarkStep(b *testing.B) {
	for _, home := range []int{benchEngines / benchServers, benchEngines} {
		f := func(name string, step func(b *testing.B, c *benchColo)) {
			b.Run(fmt.Sprintf("%s/home-of=%d", name, home), func(b *testing.B) {
				c := newBenchColo(b, home)
				b.ReportAllocs()
				for b.Loop() {
					step(b, c)
					if n := len(c.Shares()); n != home {
						b.Fatalf("%d grants", n)
					}
				}
			})
		}
		f("change", func(b *testing.B, c *benchColo) {
			c.revision++
			another := c.records[1+int(c.revision)%(benchServers-1)]
			another.Revision = c.revision
			c.observe(b, another)
			c.Next(c.held, nil)
		})
		engines := map[string]bool{}
		for i := range benchEngines {
			engines[benchURL(i)] = i < home
		}
		f("table", func(_ *testing.B, c *benchColo) {
			c.Want(engines, start)
			c.Next(c.held, nil)
		})
		f("own-entry", func(b *testing.B, c *benchColo) {
			c.Registered(nil)
			c.put(b)
		})
	}
}
