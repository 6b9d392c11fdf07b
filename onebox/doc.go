// Package onebox runs a whole fleet in one process: embedded etcd, an entry, colo servers and simulated engines, or one
// real engine instead of those. It is what `colonnade up` starts, what small installations run, and what end-to-end
// tests stand on.
//
// Nothing is shared between its nodes but the process: each has its own registry, logger and listeners on real sockets,
// and they find each other through etcd as nodes on different machines do.
package onebox
