package hops_test

import (
	"strings"
	"sync"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// A colo that swallows packets costs the first requests a second each, which then go elsewhere, and the others nothing: neither on the way
// from the entry, nor on the way from one colo to the next. Once it is healed, it serves again.
func TestColoSwallowsPackets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, from, server string
		full               []string
		model, before, now string
	}{
		{"between entry and colo", onebox.EntryPlace, "ams-1", nil, onward, "ams", "ams, fra"},
		{"between entry and second colo", onebox.EntryPlace, "fra-1", []string{"ams"}, walk, "ams, fra", "ams, fra, iad"},
		{"between colos", "ams", "fra-1", []string{"ams"}, onward, "ams, fra", "ams, fra, iad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := startFar(t, fleettest.SteadyEngine(8), noSpill, "")
			if c.full != nil {
				f.fill(c.full...)
			}
			f.expectServed(f.RawChat(chat(c.model, 1, false)), c.before)
			p := f.Proxy(c.from, c.server)
			p.Swallow()
			var all sync.WaitGroup
			for n := range 4 { // at once
				all.Go(func() { f.expectServed(f.RawChat(chat(c.model, 2, n%2 == 0)), c.now) })
			}
			all.Wait()
			for n := range 8 { // the server is known to be silent
				a := f.RawChat(chat(c.model, 2, n%2 == 0))
				way := a.Header.Get("x-colonnade-colo") + " by way of " + a.Header.Get("x-colonnade-colo-path")
				if asked := strings.Contains(way, c.server[:3]); a.Status != 200 || a.Err != nil || asked && c.from == onebox.EntryPlace {
					t.Errorf("beside the silent server: %d %v from %s", a.Status, a.Err, way)
				}
			}
			p.Heal()
			testkit.WaitFor(t, "the server to serve again", func() bool {
				h := f.RawChat(chat(c.model, 1, false)).Header
				return h.Get("x-colonnade-colo-path") == c.before || h.Get("x-colonnade-colo-path") == "" && h.Get("x-colonnade-colo") == c.before
			})
			f.freeSoon("fra", "iad")
		})
	}
}
