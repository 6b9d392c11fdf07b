package hops_test

import (
	"slices"
	"strconv"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
)

// A request that the first colos have no room for is served by the next one, in either way. The client learns who served it, over which
// colos it came, and how many engines have tried.
func TestNextColoServes(t *testing.T) {
	t.Parallel()
	f := startFar(t, fleettest.SteadyEngine(2), noSpill, "")
	n := 0
	once := func(model, path string, stream bool, servers ...string) {
		t.Helper()
		n++
		id := "served-" + strconv.Itoa(n)
		f.expectServed(f.RawChat(chat(model, 3, stream), "x-request-id: "+id), path)
		last := servers[len(servers)-1][4:]
		want := []string{"request entry-1 completed", "inference " + last + " completed"}
		for _, before := range servers[:len(servers)-1] {
			if model == onward {
				want = append(want, "forward "+before[4:]+" completed")
			}
		}
		for _, e := range f.expectEvents(id, want...) {
			wantPath := servers
			if model == onward && e.Kind != analytics.KindRequest {
				wantPath = servers[:slices.Index(servers, e.ColoID+"/"+e.Node)+1]
			} else if e.Kind == analytics.KindInference {
				wantPath = servers[len(servers)-1:]
			}
			if !slices.Equal(e.ColoPath, wantPath) {
				t.Errorf("%s over %s: the %s event of %s has the path %q, want %q", model, path, e.Kind, e.Node, e.ColoPath, wantPath)
			}
			if counted := e.CompletionTokens > 0; counted != (e.Kind == analytics.KindInference) {
				t.Errorf("%s over %s: the %s event of %s counts %d tokens", model, path, e.Kind, e.Node, e.CompletionTokens)
			}
		}
	}
	for _, stream := range []bool{false, true} {
		once(onward, "ams", stream, "ams/ams-1")
	}
	release := f.fill("ams")
	for _, model := range both {
		for _, stream := range []bool{false, true} {
			once(model, "ams, fra", stream, "ams/ams-1", "fra/fra-1")
		}
	}
	releaseFra := f.fill("fra")
	for _, model := range both {
		once(model, "ams, fra, iad", true, "ams/ams-1", "fra/fra-1", "iad/iad-1")
	}
	release()
	releaseFra()
}
