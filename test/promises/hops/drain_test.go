package hops_test

import (
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// While a colo drains, it relays the answers of the next colo to their end; new requests go past it. A stream that lasts longer than the
// drain ends by its API's error event.
func TestMiddleColoDrains(t *testing.T) {
	t.Parallel()
	f := func(name string, drain time.Duration, tokens int, check func(*testing.T, *farFleet, *wiretest.Conn)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := farConfig(fleettest.SteadyEngine(4))
			config.Drain = drain
			f := &farFleet{Fleet: fleettest.Start(t, config, farDocuments(noSpill))}
			f.served = f.Chat(chat(onward, 1, false)).Header.Get("x-request-id")
			release := f.fill("ams")
			c := f.BeginChat(chat(onward, tokens, true), "x-request-id: relayed-one")
			c.ReadUntil("data:", 1)
			release()
			ended := f.EndNode("ams-1")
			check(t, f, c)
			ended()
			f.freeSoon("fra")
		})
	}
	f("long", testkit.Timeout, 100, func(t *testing.T, f *farFleet, c *wiretest.Conn) {
		testkit.WaitFor(t, "new requests to go past it", func() bool {
			a := f.RawChat(chat(onward, 1, true))
			if a.Status != 200 || a.Err != nil || !a.Complete() {
				t.Errorf("a new request: %d %v %.300q", a.Status, a.Err, a.Body)
			}
			return a.Header.Get("x-colonnade-colo") == "fra" && a.Header.Get("x-colonnade-colo-path") == ""
		})
		if rest, err := c.ReadChunked(); err != nil || !strings.HasSuffix(rest, "data: [DONE]\n\n\r\n0\r\n\r\n") {
			t.Errorf("the stream ended with %v, %.300q", err, rest[max(0, len(rest)-300):])
		}
		f.expectEvents("relayed-one", "request entry-1 completed", "forward ams-1 completed", "inference fra-1 completed")
	})
	f("short", 300*time.Millisecond, 1<<20, func(t *testing.T, f *farFleet, c *wiretest.Conn) {
		rest, err := c.ReadChunked()
		if err == nil || strings.Count(rest, `data: {"error"`) != 1 || !strings.Contains(rest, `"reason":"draining"`) || strings.Contains(rest, "[DONE]") {
			t.Errorf("the stream ended with %v, %.300q", err, rest[max(0, len(rest)-300):])
		}
		f.expectEvents("relayed-one", "request entry-1 drained", "forward ams-1 drained", "inference fra-1 client_gone")
	})
}
