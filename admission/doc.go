// Package admission holds the pools of this node: it builds them from the fleet table, keeps them up to date while they
// work, and takes endpoints out of them that fail. It knows no transport, so that any front end can ask it for permits.
//
// [Manager.Apply] takes a table, and [Manager.Pool] finds a pool. [Pool.Acquire] returns a [Grant], a permit together with
// the endpoint that it is for, and the caller reports the outcome: [Pool.Succeeded], [Pool.Failed], [Pool.Refused] or [Pool.Full].
//
// # Concurrency limits
//
// The number of an endpoint's slots is that of its document or, with concurrency: auto, is found from how long its answers
// take to begin ([Pool.ObserveFirstByte]); see gradient.
//
// Permits belong to the URL of an engine and outlive every change of documents: an endpoint that moves to another pool
// brings only the slots that its running requests leave, and the limit that was found for its engine.
//
// # Figures
//
// An engine that has metrics is asked for them beside its health checks ([Manager.SetFigures]), one question at a time, and only here: not by
// the servers that may grant nothing on it. Requests that it has of other clients count as its load, and those that wait inside it hold a
// limit that is found; see pressure. Figures are forgotten after three intervals.
//
// # Grants
//
// The servers of a colo share its engines: [Manager.SetGrants] says on which of them this server may grant permits, how many slots
// requests of other servers have there, and which pools have their home here. All else is withheld: requests wait for it, but nothing is
// granted, no health is checked and no limit is found there. Held permits are counted against an engine's URL by [Manager.Held], whether
// or not the engine is in the grants, so that another server knows what is taken.
//
// # Deadlines
//
// A request is granted a permit only while the minimum TTFT of requests like it still fits before its deadline
// ([Pool.LatestStart]): a later grant would use a slot for an answer that comes too late. Of requests that are too late on
// arrival by this measure, one of each class is tried in ten seconds; see minTTFT.
//
// # Health
//
// An endpoint is down while its health check fails (active), and ejected after five failures in a row (passive), for 1 s
// that doubles with each relapse up to 60 s, and until a health check succeeds. Never more than half of a pool's endpoints
// are ejected. An engine that has answered is down after two failed checks in a row. An engine that has never answered is
// down after its first, since as a rule its URL is wrong or it has yet to start, and is checked again after 0.1 s, 0.2 s,
// 0.4 s and so on, up to its interval. A refused or reset connection, of which no request can be the cause, ejects at once
// and for a second, and lets the engine be checked as often, until it answers.
//
// A health check that times out says nothing of an engine that is busy, as long as it sends anything to any of its requests. One that does
// neither hangs, and is silent: it is out until it gives a sign of life; see silence. Requests note bytes that arrive ([Grant.Received])
// and clients that leave ([Grant.GaveUp]).
package admission
