package balance_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"colonnade/internal/fleettest"
)

// Many adapters are spread over engines that load them with the first request: each is loaded once, where all requests for it are served.
func TestAdaptersAreLoadedOnce(t *testing.T) {
	t.Parallel()
	const engines, adapters, clients, rounds = 4, 24, 4, 6
	engine := fleettest.QuickEngine(clients)
	engine.LoadsAdapters = true
	c := fleettest.OneColo(engine)
	c.Engines = engines
	documents := new(strings.Builder)
	documents.WriteString("key: defaults\nengines: {openai: {load_adapters: true}}\n---\nkey: pools/demo\nbalance: {policy: adapter_affinity}\n")
	for n := range adapters {
		fmt.Fprintf(documents, "---\nkey: models/tuned-%d\npool: demo\nadapter: lora-%d\n", n, n)
	}
	f := fleettest.Start(t, c, documents.String())
	f.WatchShared(8)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range adapters * rounds {
				body := fmt.Sprintf(`{"model":"tuned-%d","max_tokens":2,"messages":[{"role":"user","content":"hello"}]}`, (n*5+client)%adapters)
				if a := f.Chat(body); a.Status != 200 {
					t.Errorf("%d %s", a.Status, a.Body)
					return
				}
			}
		})
	}
	all.Wait()
	total := 0
	for _, e := range f.Engines {
		loads := int(e.Simulated.Stats().Loads)
		if total += loads; loads < adapters/engines/2 || loads > adapters/engines*2 {
			t.Errorf("%s has loaded %d of %d adapters", e.ID, loads, adapters)
		}
	}
	if total != adapters {
		t.Errorf("%d adapters were loaded %d times", adapters, total)
	}
}
