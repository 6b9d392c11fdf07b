package balance_test

import (
	"fmt"
	"testing"

	"colonnade/balance"
)

// A choice among 1000 endpoints for one of 500 adapters, and its grant and release: each is loaded at a few, or named by
// the lists of all and loaded at none; or it is new.
func BenchmarkAdapters(b *testing.B) {
	const endpoints, adapters = 1000, 500
	f := func(name string, forget bool, prepare func(f *adapterFleet, requests []*balance.Request)) {
		b.Run(name, func(b *testing.B) {
			fleet, requests := newAdapterFleet(endpoints, 16, 4), make([]*balance.Request, adapters)
			for i := range requests {
				requests[i] = asks(fmt.Sprint("adapter-", i))
			}
			prepare(fleet, requests)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				r := requests[n%adapters]
				n++
				c := fleet.Choose(0, r, nil)
				fleet.grant(c.At, r)
				fleet.Released(c.At, "", r)
				fleet.add(c.At, -1)
				if forget {
					fleet.ForgetAdapters(c.At)
				}
			}
		})
	}
	f("loaded", false, func(f *adapterFleet, requests []*balance.Request) {
		for i, r := range requests {
			for at := i % 250; at < endpoints; at += 250 {
				f.grant(at, r)
				f.release(at, r)
			}
		}
	})
	f("loaded by all", false, func(f *adapterFleet, requests []*balance.Request) {
		for i := range requests {
			requests[i] = requests[0]
		}
		for at := range endpoints {
			f.grant(at, requests[0])
			f.release(at, requests[0])
		}
	})
	f("in use by all", false, func(f *adapterFleet, requests []*balance.Request) {
		for i := range requests {
			requests[i] = requests[0]
		}
		for at := range endpoints {
			f.UseAdapters(at, []string{requests[0].Adapter})
		}
	})
	f("full at all but one", false, func(f *adapterFleet, requests []*balance.Request) {
		for i := range requests {
			requests[i] = requests[0]
		}
		for at := range endpoints {
			f.grant(at, requests[0])
			if at > 0 {
				f.add(at, 15)
			}
		}
	})
	f("listed by all", true, func(f *adapterFleet, requests []*balance.Request) {
		var names []string
		for _, r := range requests {
			names = append(names, r.Adapter)
		}
		for at := range endpoints {
			f.SetAdapters(at, names, false)
		}
	})
	f("new", true, func(*adapterFleet, []*balance.Request) {})
	f("no adapter", false, func(_ *adapterFleet, requests []*balance.Request) {
		for _, r := range requests {
			r.Adapter = ""
		}
	})
}
