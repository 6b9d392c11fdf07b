// Package etcd fills the fleet table from etcd, and puts documents there.
//
// # Watching
//
// A [Watcher] goes round: it lists all its keys at one revision, publishes the table, and watches from there. Whatever
// goes wrong with the watch (it is compacted or cancelled, the leader is lost, it goes silent) ends the round, and the
// next one lists again; what the list no longer has is deleted. So every recovery is the same code, and a change can be
// late but not lost.
//
// A connection whose packets vanish makes a watch silent, without an error, for as long as it lasts; so does a store
// that was restored to an older revision than the watch waits for. So the watcher asks for progress every third of its
// Silence, and takes a watch that has said nothing for that long for dead, by its own clock. A watch that the library
// resumed after a lost connection does not answer either until something changes; that costs one list too many. Once in
// ten minutes the watcher lists anyway, so that what nothing told (a store restored and written on between two
// questions) is found.
//
// Every table is the store as it was at one revision, so that what one transaction changes comes into force as one,
// whatever kinds its documents are of. Each kind is watched by itself, and one watch may be ahead of another: a change
// waits until all of them have come up to it, which the watcher asks them at once; and if one does not say, a thirtieth
// of Silence: half a second.
//
// Bad documents never reach the table: the last good version stays, and the rejection is logged and counted. The last
// good versions are kept in a file, too. A node reads it before its first list, so that a document that was bad while
// the node was down still has its last good version, and starts from it alone when etcd does not answer.
//
// # What is gone and stays
//
// Some of what the store no longer has stays in force, since it is more likely that the store is wrong, or a hand has
// slipped. The table names it.
//
// Held: when at least ten, and more than half, of the operators' documents of a kind vanish within a minute, all of
// these deletions are held back, however they came to be known: at once, one by one, or by a list after an outage. They
// go out of force when the document "deletions" confirms the revision at which they were noticed, and stay when they
// are put again. What the store has wins over what is held: of an alias or a key that both claim, and an endpoint goes
// out of force whose URL was put under another name, and a model whose name is now an alias. A confirmation does not
// reach beyond the moment when it was put. A node that was away then asks the store what was missing at the confirmed
// revision; if that is compacted, it holds back, and wants to be told again. So it does when the store was restored to
// an older revision.
//
// Suspect: what stood under a lease. A server that was active stays for fifteen seconds, or until another active one of
// its colo is there; one that had said that it drains goes at once. An endpoint stays until somebody calls Forget,
// which a colo server does when the endpoint's health check fails too, or until its URL is registered anew; one of
// concurrency 0 goes at once. So a registrar that withdraws an engine which goes on running first puts it with
// concurrency 0. A node that starts takes what is leased as the store has it.
//
// # Registering
//
// [Register] puts a node's own document under a lease, and [Lease.Run] keeps it there: it renews the lease each third
// of its TTL, puts the key again if it is gone, registers anew when the lease was lost, and removes both at the end.
// Every decision is a transaction in etcd, so two nodes never both believe that they have a name. A name whose last
// owner was killed is free when that owner's lease runs out; Register waits for that, and gives up as soon as it sees
// the lease renewed.
//
// A node that holds a lock which its dead predecessor held can know better: it saves the lease in a file, and the next
// run under its name ends that lease at once, if the key still stands under it.
//
// # Bounds
//
// Every call has a deadline; nothing waits for a connection that swallows packets. Memory is that of the documents,
// three times: as fetched, as trees, as the table. There is at most one table each 20 ms, and the file of last good
// documents is written at most once a second. One document has at most four lines a minute in the log, of each sort.
package etcd
