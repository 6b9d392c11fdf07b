// Package node puts one node together and takes it apart again: [RunEntry] and [RunColo] are straight lines from a
// config to a served listener, and from a cancelled context through the drain to the last closed file. The binaries
// and the fleet in one process both run nodes through here, so what is tried out is what runs in production.
//
// Every node has its own registry, logger and listeners. What goes on beside requests (watching etcd, keeping the
// registration, probing) ends after the drain, not with it: a node that drains must still be seen.
package node
