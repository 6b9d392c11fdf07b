package alerts_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
)

// An engine that takes requests and sends nothing, not even the answer to a health check, hangs.
func TestEngineHung(t *testing.T) {
	t.Parallel()
	engine, _ := fleettest.StartStubEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","choices":[]}`)
	})
	proxy := testkit.NewProxy(t, engine.Listener.Addr().String())
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), fmt.Sprintf("key: endpoints/ams/own\nurl: http://%s\npool: own\n"+
		"health: {interval: 20ms, timeout: 400ms, silence: 900ms}\n---\nkey: models/own\npool: own\n", proxy.Address))
	isIn := func(state string) func() bool {
		return func() bool { return f.Pool("ams", "own").Endpoints[0].State == state }
	}
	testkit.WaitFor(t, "the endpoint to be up", isIn("up"))
	r := start(f)
	proxy.Swallow()
	c := f.BeginChat(fleettest.StubBody)
	testkit.WaitFor(t, "the endpoint to be silent", isIn("silent"))
	r.scrape()
	c.Close()
	proxy.Heal()
	r.expect(t, "ColonnadeEndpointSilent", "ColonnadePoolWithoutSlots")
}
