package fleettest

import (
	"context"
	"fmt"
	"net"
	"testing"

	"colonnade/internal/simengine"
)

// StartKind runs a simulated engine that plays a kind, beside those of the fleet, until the test ends. It returns the engine, and the documents
// that make it the only endpoint of a pool of ams and of the model "own"; c.Models is set to that name. more is added to the model's document.
func StartKind(t testing.TB, c simengine.Config, more string) (e *simengine.Engine, documents string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Models = []string{"own"}
	e = simengine.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- simengine.Serve(ctx, ln, e) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		e.Close()
	})
	return e, fmt.Sprintf("key: endpoints/ams/own\nurl: http://%s\npool: own\nengine: %s\nconcurrency: %d\n---\nkey: models/own\npool: own\n%s",
		ln.Addr(), c.Kind, max(c.Slots, 1), more)
}
