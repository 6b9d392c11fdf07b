package streams_test

import (
	"fmt"
	"sync"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/onebox"
)

// An engine whose responses are malformed, cut or 5xx is ejected, and the other engine of its pool serves; one that refuses
// requests, or is misconfigured, is not.
func TestResponsesThatEject(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name     string
		response rawResponse
		counts   bool
	}{
		{"both framings", head(okHead + "Content-Length: 21\r\nTransfer-Encoding: chunked\r\n"), true},
		{"cut", writing(okHead + "Content-Length: 99\r\n\r\n" + evilJSON).then(closes), true},
		{"closed", writing("").then(closes), true},
		{"500", framed("500 Oh", ""), true},
		{"400", framed("400 No", ""), false},
		{"gzip", framed("200 OK", evilJSON, typeJSON, inGzip), false},
		{"more than announced", writing(goodResponse(true, false) + evil), false},
	}
	bad, good, documents := make([]*rawEngine, len(kinds)), make([]*rawEngine, len(kinds)), ""
	for i, k := range kinds {
		bad[i], good[i] = startRawEngine(t, k.response), startRawEngine(t, rawResponse{})
		bad[i].hostile.Store(true)
		documents += fmt.Sprintf("---\nkey: endpoints/ams/bad%d\nurl: %s\npool: raw%d\n---\nkey: endpoints/ams/good%d\nurl: %s\npool: raw%d\n", i, bad[i].url, i, i, good[i].url, i) +
			fmt.Sprintf("---\nkey: models/raw%d\npool: raw%d\nretry: {errors: 0}\ntimeouts: {connect: 20s}\n", i, i)
	}
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}}, documents[4:])
	f.WatchShared(8 + 4*len(kinds))
	state := func(i int, url string) string {
		for _, e := range f.Pool("ams", fmt.Sprintf("raw%d", i)).Endpoints {
			if e.URL == url {
				return e.State
			}
		}
		return ""
	}
	var all sync.WaitGroup
	for i, k := range kinds {
		all.Go(func() {
			found := "up"
			for n := 0; n < 60 && bad[i].asked.Load() < 8 && found == "up"; n++ {
				_ = f.Chat(fmt.Sprintf(`{"model":"raw%d","messages":[]}`, i))
				found = state(i, bad[i].url) // for a second
			}
			want := "up"
			if k.counts {
				want = "ejected"
			}
			if found != want {
				t.Errorf("%s: after %d such responses it is %q, want %q", k.name, bad[i].asked.Load(), found, want)
			}
			if s := state(i, good[i].url); s != "up" {
				t.Errorf("%s: the other engine is %q", k.name, s)
			}
		})
	}
	all.Wait()
}
