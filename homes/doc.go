// Package homes decides which server of a colo grants permits on which engine, while servers join, drain, restart, fall silent and die.
//
// # Homes
//
// The home of a pool is the first active registered server in rendezvous order (Thaler and Ravishankar 1998). It alone grants on the
// engines of the pool, holds its queue, and relays what it grants, so that a permit needs no network. Each node computes homes from its
// own table, and a server that joins or leaves a colo moves no pools but its own. Tables may differ for a while, so they only say which
// server should grant. Which server may grant is decided by records.
//
// # Records
//
// Each server process keeps one [Record] in the store, without a lease: the engines that it owns or wants to own, by URL, and how many
// requests it has on engines that it does not own. While the process is registered, only the process itself changes it. [Ownership] has the
// rules for a registered process:
//
//   - The process puts a record with an entry for each engine of the pools that it is the home of. It may grant on an engine once one view
//     of the records has its own entry, and no other record with an entry for the engine. All processes see the records in the order of
//     the store. So if two put an entry for one engine, the later one sees the earlier entry. A process that may grant on an engine keeps
//     that right until it gives it up, whatever others put.
//   - To give an engine up, the process stops granting on it, and then puts its record without the engine and with the number of its
//     requests there, in one transaction. That number only falls. It is put again until it is 0.
//   - The next owner counts what all others hold on an engine as taken.
//   - A put without an answer may yet take place. Each put requires that the record is as it was known to be, so once a later put is
//     known to stand, an earlier one cannot take place any more. The process grants on no further engine before that.
//   - The transaction that registers a process, for the first time or again, puts a record that owns nothing and holds all requests of the
//     process. The process has given up its earlier rights by then.
//
// Why no two processes may grant on one engine: let two begin to grant on it, the first at a view of revision p, the second at a view of
// revision q ≥ p. At q, no record but that of the second owns the engine. The record of the first owned it at p, and would own it until the
// first gives it up. So the first has given it up, and stopped granting before it put that.
//
// # Orphaned records
//
// The record of a process that is not registered blocks what it owns. [Orphans] decides when it blocks no more:
//
//	what is known of the process                               the record
//	--------------------------------------------------------   ---------------------------------------------------------
//	it answers that it may grant                               stays
//	it answers that it may not, and how many requests it has   owns nothing and holds these, as each answer says; deleted at 0
//	it has ended for certain                                   is deleted 250 ms later, when engines have noticed
//	nothing, for 10 s                                          is deleted: its requests may run beside those of the next owner
//
// A process has ended for certain if a later process of its node says so, which holds the lock on the node's data directory; if a later
// process of its node has its address; or if its address refuses connections. Each change of such a record requires that its process is
// still not registered and that the record is unchanged. A process that answered that it may not grant gets its rights back only by
// registering.
//
// # Without the store
//
// A right to grant lasts for nine tenths of the TTL of the registration after its last confirmation. A process that knows of no other
// server of its colo goes on while the store is away. Others ask each other: the word of a server that it does not reach the store
// either, or a refused connection, is valid for nine tenths of a TTL from the question. The right ends when the oldest of these words
// expires. A process that was asked about its own record gets no right from words: the asker reaches the store, and finds the process not
// registered. [Vouchers] keeps the words.
package homes
