package worker

import (
	"context"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// Registry is where the documents of a worker stand: etcd, or a server that has them on the worker's behalf. Its functions are safe for
// concurrent use.
type Registry struct {
	// Run keeps the last Set in place until ctx ends; then it removes it, and returns nil. It outlasts every failure that may pass. An error
	// ends the worker and its engine, so it is for what was wrong from the start: a token that is refused, an ID that another worker has.
	Run func(ctx context.Context) error
	// Set gives it the newest state, which is stored soon. It does not block.
	Set func(Registration)
	// Stored waits until the last Set stands where others see it, or ctx ends.
	Stored func(ctx context.Context) error
	// InFlight returns an upper bound on the requests that servers of the colo still have on the engine.
	InFlight func(ctx context.Context) (int, error)
	// PoolOf returns the pool that the document of a model names; "" if there is no such document. nil = it cannot be known.
	PoolOf func(ctx context.Context, model string) (string, error)
}

// Registration is what a worker has to say. It is not modified after Set.
type Registration struct {
	// Worker is its own document, workers/<Worker.Node>.
	Worker fleet.Worker
	// Endpoint is the engine's, endpoints/<colo>/<id>; its Key is empty while the engine has not answered yet.
	Endpoint document.Raw
	// Models are documents pools/… and models/… to create where there are none.
	Models []document.Raw
}
