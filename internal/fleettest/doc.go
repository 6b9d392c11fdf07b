// Package fleettest runs whole fleets for end-to-end tests, and speaks to them as clients and operators do: [Start] runs
// one, its methods send requests, open sessions, change documents in etcd and read the pages, metrics and events of its
// nodes. [Fleet.Watch] ends a test with the oracle: nothing held, queued or leaked, and one final event for each request.
//
// [StubEngine] and [StubColo] stand in for an engine and for a colo server that answer what a test wants. Package
// internal/wiretest reads and writes byte by byte, and does not know fleets.
//
// A fleet belongs to one test, which fails with what goes wrong in it. Its methods may be called from several
// goroutines, but those that end the test at once (by Fatal) only from the test's own.
package fleettest
