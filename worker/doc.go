// Package worker runs beside one engine: it starts the engine or watches one that runs, registers it for a colo once it answers, follows its
// health, and takes it out before it stops it.
//
// # States
//
// An engine is starting until it has answered what it is and its health path. Then it is serving: its document is in the [Registry], under
// a lease or its like. It is out while it does not answer, or while a GPU of it is broken, and serving again once that is over. If its process
// ends by itself, it is in backoff until it is started again, after 1 s, then after twice as long each time, up to 60 s, and after 1 s again
// once it has been well for 5 min. At the end of the worker it is draining.
//
// An engine that is not serving keeps its document, with concurrency 0 and the reason, so that servers of the colo give it up, and requests
// that run on it end as they may.
//
// # End
//
// The first signal takes the engine out, waits until no server of the colo has a request on it any more, at most for Config.Drain, stops the
// engine, and removes the documents, in this order. So no request is lost where other engines of the pool have room.
//
// # Hung engines
//
// An engine that refuses connections is taken out at once, one that only misses its health checks after half of Config.HungAfter: colo
// servers see the bytes that it streams, and the worker does not. After Config.HungAfter it counts as hung; a worker that has started it
// ends it and starts it again.
package worker
