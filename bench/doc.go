// Package bench judges gateways under overload. It starts simulated engines, puts each gateway before engines of its
// own, sends it open-loop load, and reports what came of it: a Report, which is rendered as Markdown, as a table for a
// terminal, as JSON and as plots.
//
// Open loop means that requests are sent when they are due, whatever has become of those before: a client that waits
// for its answer before it asks again would spare the gateway just when it is overloaded, and its measurements with it
// (Schroeder, Wierman and Harchol-Balter, "Open Versus Closed: A Cautionary Tale", NSDI 2006).
//
// A Gateway is what can be started before engines, or is found at a URL. Every gateway in a run gets the same engines,
// the same accounts, and the same bounds on its queue, as far as it can have them. What it is and how it is set up
// stands in its About, for a comparison is worth as much as the care that was taken with the others.
//
// # What is measured, and how
//
// Capacity is what the engines do for as many clients as they have slots, each of which asks again when it is answered,
// without a gateway; it is measured in every run. Goodput is the work of requests that were answered, of that: work is
// the time that an answer needs on an engine, so a slot that is held for longer than that does no more.
//
// An id in each prompt joins what clients and engines saw of a request. Service is the time that an account held slots,
// in the window that is measured, whatever came of it. A wait is the time to the first token less the engine's own.
// Both count from when the request was due, not from when it was sent: so a load generator that is late, or is held up,
// does not spare the gateway, and a note says so where it was late.
//
// In a fleet that is full no request can begin before a slot frees. So a quiet account's time to the first token, and
// its wait, are also counted from the next slot that frees after it was due, whoever takes that: what is left is the
// gateway's doing. A slot that was given already to a request that is on its way to the engine is not free (see
// nextSlot). A request of a quiet account that is refused, or fails, counts as one that takes a minute.
//
// Load goes on after the window until what was due in it has had its time: what is answered because the load has
// stopped says nothing of overload.
//
// Answers are of many lengths, from half as long as is usual to half as much longer: if all were alike, slots would
// keep step and free together.
//
// # Bounds
//
// At most 4096 connections to each gateway; a request waits for a minute at most. All is on one machine: what the load
// generator and the engines take of it is part of every figure, and the same for every gateway.
//
// The package knows nothing of Colonnade's insides: load comes from outside, as clients send it.
package bench
