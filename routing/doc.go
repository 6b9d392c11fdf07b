// Package routing turns a table and a model into a plan: the colos that a request tries, in order. A plan is a pure function
// of the table, the model and the [Request]: randomness comes from a seed, and what is known of loads and distances comes from
// functions in the request. A [Planner] keeps what depends on the table and the model only.
//
// # Rules
//
// A usable colo is active, has an active server, and has the model's pool: one of its servers has registered the pool, or has
// registered no pools at all. Registrations lag behind documents by about a second, so if no usable colo of any step has the
// pool, the pools count as not known.
//
// A step selects usable colos by name or region, and of these the ones that have all labels of the step and whose round trip is
// within its bound. It orders them by its pick, and yields as many as its attempts. A colo stands once in a plan, in the first
// step that yields it. Colos that were seen full stand behind the others of their step, and colos that are not reached behind
// those; neither is left out.
//
// The algorithms random and latency are one step with all colos. The algorithm flow is one step with all colos too: colos with
// a weight for the region of the entry come first, by weighted draws, and the others follow by distance.
//
// # Weighted draws
//
// A weighted order is weighted sampling without replacement: each next colo is drawn from those that are left, with a
// probability in proportion to its weight. It is computed by the algorithm A-ES of Efraimidis and Spirakis ("Weighted random
// sampling with a reservoir", Information Processing Letters 97, 2006): each colo gets an exponentially distributed number,
// divided by its weight, and the colos are sorted by these numbers.
//
// # Distances
//
// The distance of a colo is the round trip between the entry and the colo: as measured, or else as [Guess] computes it from
// the positions of both.
//
// # Cost
//
// A plan evaluates each selected colo once: it packs the order into one integer for each colo and sorts these, or keeps the
// least few of them where a step has attempts. It allocates nothing if the caller's slice is long enough.
package routing
