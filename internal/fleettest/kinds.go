package fleettest

import (
	"context"
	"fmt"
	"net"
	"testing"

	"colonnade/internal/simengine"
)

// Plays reports whether the simulated engine has a path that engines of a kind have.
func Plays(kind, path string) bool {
	return kind != "sglang" || path != "/api/chat" && path != "/api/generate"
}

// StartKind runs a simulated engine that plays a kind, beside those of the fleet, until the test ends. It returns the engine, and the documents
// that make it the only endpoint of a pool of ams and of a model, which both have its name. more is added to the model's document.
func StartKind(t testing.TB, name string, c simengine.Config, more string) (e *simengine.Engine, documents string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Models = []string{name}
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
	const format = "---\nkey: pools/%[1]s\n---\nkey: endpoints/ams/%[1]s\nurl: http://%[2]s\npool: %[1]s\nengine: %[3]s\nconcurrency: %[4]d\n" +
		"---\nkey: models/%[1]s\npool: %[1]s\n%[5]s\n"
	return e, fmt.Sprintf(format, name, ln.Addr(), c.Kind, max(c.Slots, 1), more)
}
