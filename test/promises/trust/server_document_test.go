package trust_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// A document of a second server, put by hand, gets no request of any pool while the registered server lives, and is reported.
func TestServerPutByHandGetsNoRequest(t *testing.T) {
	t.Parallel()
	var heard atomic.Int32
	address := testkit.Serve(t, func(c net.Conn) {
		heard.Add(1)
		c.Close()
	})
	const pools = 12 // so that a home for some of them would have been the second server
	var documents strings.Builder
	engine, stub := startTape(t)
	for i := range pools {
		fmt.Fprintf(&documents, "---\nkey: models/m%d\n---\nkey: endpoints/ams/m%d\nurl: http://%s/%d\npool: m%d\n", i, i, engine.address, i, i)
	}
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, stub+documents.String())
	f.Operator().Put("key: servers/ams/a-rival\naddress: " + address + "\nboot: rival\n---\nkey: servers/ams/z-rival\naddress: " + address + "\nboot: rival\n")
	f.ExpectEverywhere("the second documents to be reported", func(_ string, p fleettest.FleetPage) bool {
		return len(p.Conflicts) == 2 && p.Conflicts[0]["winner"] == "servers/ams/ams-1" && p.Conflicts[1]["winner"] == "servers/ams/ams-1"
	})
	for i := range pools {
		if a := f.Chat(fmt.Sprintf(`{"model":"m%d","messages":[]}`, i)); a.Status != 200 {
			t.Errorf("pool m%d: answered %d %s", i, a.Status, a.Body)
		}
	}
	if n := heard.Load(); n > 0 {
		t.Errorf("the documents put by hand got %d connections", n)
	}
}
