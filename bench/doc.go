// Package bench measures gateways under overload. It starts simulated engines, puts each gateway in front of engines of its
// own, sends open-loop load, and reports the result: a Report, which is written as a Markdown page with charts, as tables for
// a terminal, and as JSON.
//
// Open loop means that requests are sent when they are due, whether or not earlier ones were answered. A client that waits for
// its answer before it asks again would relieve the gateway just when it is overloaded, and its measurements with it
// (Schroeder, Wierman and Harchol-Balter, "Open Versus Closed: A Cautionary Tale", NSDI 2006).
//
// A Gateway is started in front of engines, or is found at a URL. All gateways in a run get the same engines, the same accounts
// and the same bounds on their queues, as far as they have such bounds. Gateway.About says how each is configured, since a
// comparison is worth as much as the care that was taken with the others.
//
// # Measurements
//
// Capacity is what the engines answer for as many clients as they have slots, each of which asks again when it is answered,
// without a gateway; it is measured in every run. Goodput is the work of completely answered requests, relative to the
// capacity. Work is the time that an answer needs on an engine, so a slot that is held for longer does no more work.
//
// An id in each prompt joins the client's and the engine's view of a request. Service is the time for which an account held
// slots within the measured window, whatever the outcome. A wait is the time to first token without the engine's own. Both
// count from when the request was due, not from when it was sent, so a load generator that is late does not flatter the
// gateway, and a note says by how much it was late.
//
// While all slots are taken no request can begin before one becomes free. So a quiet account's time to first token, and its
// wait, are also counted from the next slot that becomes free after the request was due, whichever request takes it: the rest is
// the gateway's doing. A slot that was given to a request on its way to the engine is not free (see slotTimeline). A quiet
// account's request that is refused or fails counts as one that takes a minute.
//
// Load continues after the window until the requests that were due in it have had their time: an answer that is given because
// the load has stopped says nothing about overload.
//
// Answers differ in length, from half to one and a half of the mean. If all were alike, slots would become free in step.
//
// # Bounds
//
// At most 4096 connections to each gateway are open, and a request waits for at most a minute. Load generator, engines and
// gateways share one machine, so their CPU time is part of every figure, for every gateway alike.
//
// The package imports nothing of Colonnade but its nouns and the simulated engine: load comes from outside, as from clients.
package bench
