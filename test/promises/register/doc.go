// Package register has the end-to-end tests of engines that colonnade register starts and registers, with processes: workers and their engines,
// an etcd, colo servers and entries.
//
//   - An engine serves a model for which no document was written, and a worker whose place is taken is refused (registered).
//   - Replacing one engine by another under load loses no request: each is answered in full, by one attempt, also while the home of the
//     pool moves (replacement).
//   - A worker that is killed leaves its engine serving, and another one takes its place. An engine that is killed is taken out, started
//     again and put back; a request that was not answered yet goes to another engine (killed).
//   - No request is disturbed while etcd is away. A worker that drains then says after -drain what it does not know, and ends (store).
//
// Each test ends with a fleet at rest, and with events that agree with what the clients have seen.
package register
