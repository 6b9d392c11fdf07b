// Package liveness sends requests to colo servers elsewhere, and finds servers that keep their connections open and send nothing: the
// process was stopped, or its host is lost.
//
// A [Sender] makes one hop, for an entry and for a colo server that forwards a request. Its [Watcher] watches the servers that have
// attempts without a first byte. After 500 ms without a byte from a server, it asks the server for a sign of life; after a second, it
// ends the attempts that could go elsewhere, and requests avoid the server until it answers a question. A server that is only slow
// answers. A refused connection is no silence: it comes from a host that runs, or from a server that drains. The time in which this
// process stood still, or was short of processor time, is not counted as silence of others.
//
// The watcher does not read the table. An entry reports which servers are registered, and whose leases have expired ([Config].Registered). A
// server whose lease has expired is asked for a sign of life, too, and reported dead without one. A colo server knows others only by the requests that it forwards.
//
// One goroutine looks at all servers ten times a second, so a request costs two short critical sections, and no timer.
package liveness
