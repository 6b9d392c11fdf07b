// Package etcd fills the fleet table from etcd, and puts documents there.
//
// # Watching
//
// A [Watcher] goes round: it lists all its keys at one revision, publishes the table, and watches from there. Whatever goes
// wrong with the watch (it is compacted or cancelled, the leader is lost, it goes silent) ends the round, and the next one
// lists again; what the list no longer has is deleted. So every recovery is the same code, and a change can be late but not
// lost.
//
// A connection whose packets vanish makes a watch silent, without an error, for as long as it lasts; so does a store that was
// restored to an older revision than the watch waits for. So the watcher asks for progress every third of its Silence, and
// takes a watch that has said nothing for that long for dead, by its own clock. A watch that the library resumed after a lost
// connection does not answer either until something changes; that costs one list too many. Once in ten minutes the watcher
// lists anyway, so that what nothing told (a store restored and written on between two questions) is found.
//
// Bad documents never reach the table: the last good version stays, and the rejection is logged and counted. The last good
// versions are kept in a file, too. A node reads it before its first list, so that a document that was bad while the node was
// down still has its last good version, and starts from it alone when etcd does not answer.
//
// # Registering
//
// [Register] puts a node's own document under a lease, and [Lease.Run] keeps it there: it renews the lease each third of its
// TTL, puts the key again if it is gone, registers anew when the lease was lost, and removes both at the end. Every decision
// is a transaction in etcd, so two nodes never both believe that they have a name. A name whose last owner was killed is free
// when that owner's lease runs out; Register waits for that, and gives up as soon as it sees the lease renewed.
//
// # Bounds
//
// Every call has a deadline; nothing waits for a connection that swallows packets. Memory is that of the documents, three
// times: as fetched, as trees, as the table. The file of last good documents is written at most once a second.
package etcd
