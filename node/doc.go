// Package node runs one node: [RunEntry] and [RunColo] are straight lines from a config to a served listener, and from
// a cancelled context through the drain to the last closed file. The binaries and the fleet in one process both run nodes
// through this package, so that what is tried out is what runs in production.
//
// Every node has its own metrics registry, logger and listeners. Background tasks (watching etcd, keeping the
// registration, probing endpoints) end after the drain, not with it: a draining node must stay visible.
package node
