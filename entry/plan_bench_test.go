package entry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/forwarding/hop"
)

// BenchmarkPlanOfManyColos is what an entry does before the first attempt of a request: the plan over 300 colos, whose loads and distances are
// all known, and the return probability of each.
func BenchmarkPlanOfManyColos(b *testing.B) {
	var documents strings.Builder
	documents.WriteString("key: models/m\nrouting: {steps: [{within: 20ms, pick: latency, attempts: 2}, {regions: [region-1, region-2, region-3], pick: random, attempts: 2}, {pick: least_loaded}]}\n")
	for i := range 300 {
		fmt.Fprintf(&documents, "---\nkey: colos/colo-%03d\nregion: region-%d\n---\nkey: servers/colo-%03d/1\naddress: 127.0.0.1:1\nboot: b\npools: {m: 16}\n", i, i%10, i)
	}
	table := tableOf(b, documents.String())
	m, _ := table.Model("m")
	_, e := startEntryWith(b, Config{Table: tableFunc(table)}, b.TempDir())
	now := time.Now()
	for i, c := range table.Colos() {
		e.observed.noteLoad(poolIn{"m", c.Name}, hop.Load{Free: i % 17, Held: 16 - i%17, Limit: 16}, now)
		e.observed.state(c.Name).roundTrip.Store(int64(i) * int64(time.Millisecond))
	}
	caller := accounts.Caller{Account: table.AccountOrDefault(accounts.Open)}
	b.ReportAllocs()
	for seed := uint64(0); b.Loop(); seed++ {
		c := &call{entry: e, model: m, arrived: now}
		c.caller = caller
		c.startAttempts(table, "", queueDefault, seed)
		e.budget.End()
		if _, ok := c.attempts.next(); !ok {
			b.Fatal("no attempt")
		}
	}
}
