// Package onebox runs a whole fleet in one process: embedded etcd, an entry, colo servers, and simulated engines or one
// real engine. `colonnade up`, `colonnade serve` and end-to-end tests start fleets with it.
//
// Its nodes share nothing but the process: each has its own registry, logger and listeners on real sockets, and they
// find each other through etcd as nodes on different machines do.
package onebox
