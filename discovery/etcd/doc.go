// Package etcd fills the fleet table from etcd, writes documents there, and keeps nodes registered.
//
// # Watching
//
// A [Watcher] works in rounds: it lists all its keys at one revision, publishes the table, and watches from that revision
// on. The end of the watch, for any reason (compaction, cancellation, a lost leader, silence), ends the round, and the next round lists
// again; documents that the list lacks are deleted. So every recovery takes the same path, and a change can be late but
// not lost.
//
// A connection whose packets vanish makes a watch silent, without an error, for as long as the connection lasts; so does a
// store that was restored to an older revision than the watch waits for. The watcher therefore requests progress every third
// of Config.WatchTimeout, and by its own clock takes a watch that has sent nothing for that long for dead. A watch that the
// library has resumed after a lost connection does not answer such a request until something changes, which costs one list
// too many. Every ten minutes the watcher lists in any case, to find what no watch can report: a store that was restored
// and written on between two requests.
//
// Every table is the store as it was at one revision, so that what one transaction changes comes into force as one, of
// whatever kinds its documents are. Each kind has a watch of its own, and one watch may be ahead of another: a change waits
// until all watches have reached its revision. The watcher requests their progress at once, and waits for a thirtieth of
// WatchTimeout (half a second) at most.
//
// Bad documents never reach the table: the last good version stays in force, and the rejection is logged and counted. The
// last good versions are also kept in a file. A node reads it before its first list, so that a document that turned bad while
// the node was down still has its last good version; and it starts from the file alone when etcd does not answer.
//
// # Documents that are gone and stay in force
//
// Some documents stay in force although the store lacks them, since a faulty store or a slip of an operator is more likely
// than the intention to remove them. The table lists their keys.
//
// Pending deletions: deletions of operators' documents are held back, whether they were seen at once, one by one within a minute, or by a
// list after an outage, when
//
//   - at least three of a kind vanish, and more than are left;
//   - the last model, colo, account or API key for requests vanishes: keys of workers are for none;
//   - the last pool vanishes, while a model names one of those that vanished within the minute. Whether a pool has requests is known to colo
//     servers only, and each would decide for itself; a pool that no model names has none. A pool without a document has the defaults, so
//     the loss of one of several is no more than a change of its settings;
//   - the last endpoint with slots of a pool that a model names vanishes from a colo. An endpoint that another document has replaced, by its
//     URL or in its pool, was not the last, and an endpoint under a lease counts as one that is left;
//   - the store has none of the operators' documents any more, and some are held back by the other rules: then all are.
//
// Endpoints and servers are counted by colo. So each rule is a function of documents which every node that it concerns sees as a whole: a
// colo server does not watch the endpoints of other colos, and an entry watches none. The decision about a revision is made before the next
// one is looked at, so nodes decide alike however many revisions they see at once; only what is a minute ago, and what a list finds after
// an outage, depends on the node.
//
// Held deletions take effect when the document "deletions" confirms the revision at which they were noticed, which may be in the same
// transaction, and are void when the documents are
// put again. The store wins over a document that is held back: an alias that both claim goes to the one in the store; an
// endpoint whose URL, or an API key whose hash, was put under another name goes out of force, and so does a model whose name
// is now an alias. A confirmation does not reach beyond the moment when it was put. A node that was away asks the store
// which documents it lacked at the confirmed revision; if that revision is compacted, or the store was restored to an older
// one, the node holds the deletions back until they are confirmed again.
//
// Expired leases: a server that was active when its lease expired stays until [Watcher.MarkDead] is called, which entries and
// colo servers do when the server shows no sign of life. It is not registered meanwhile ([fleet.Table.Registered]). A server
// that was draining goes at once. An endpoint stays until MarkDead is called, which a colo server does when the endpoint's
// health check fails too, or until its URL is registered anew. An endpoint of concurrency 0 goes at once: a registrar that
// withdraws an engine which keeps running puts it with concurrency 0 first. A node that starts takes the store's word for what
// is leased.
//
// # The log of changes
//
// Each version of a document that a node takes up, and each deletion, is in the log, with its kind, key and revision, and with the author if a
// [Writer] made the change: the node also watches [AuthorKey], whose revision is then that of the change. A line is written when no change
// has come for 0.2 s, or 2 s after the first; there are at most four at once, and then four a minute, and what comes in between is in the next
// line. A line about many changes has their number by kind, and the first eight keys. Documents that nodes and registrars write about
// themselves are logged when they come and when they go.
//
// # Two documents for one URL
//
// Of two endpoints with one URL, the one that was first has it, and the other waits until the first is gone or has another
// URL; [document.Set] keeps that order. So a document that is put later captures nothing, whatever its name. Nodes that follow
// the store see the order in which documents were put, and keep it in their file. A node that starts without a file takes the
// order in which the keys were created: it may decide otherwise only if a document was changed to a URL that a younger document
// had already. A key that was deleted and created again is a new document, also for a node that saw only the result.
//
// A colo has any number of servers. A server without a lease was put by hand, and is left out while another server is
// registered in its colo: it would get a part of the requests.
//
// # Changes and their authors
//
// A [Writer] changes documents in transactions that also put, below "history/": under [AuthorKey] who makes the change, and under a key
// of its own the change itself, with the documents before and after it. The revision of AuthorKey is that of the documents, so a
// node that sees both knows who changed them; no other program puts AuthorKey. The newest [MaxHistory] changes are kept. One
// whose values have more than 256 KiB has none, only keys and revisions. No key below "history/" is a document, and [List] of everything leaves
// them out.
//
// # Staged changes
//
// A change can be tried at one node before all others have it: [Writer.Stage] puts it, as a whole, under a key of that node, which no other node
// reads, and under a lease that a command renews while it watches the node. The node lays it over its documents whenever it builds a table:
// its documents and the file of last good documents do not have it, so everything of it is gone with the key, and a node that starts without etcd
// starts without it. Deletions of a staged change are not held back.
//
// The change ends with its lease, also for a node that cannot reach etcd: the value has the TTL of the lease, and the node withdraws the change
// when it has heard nothing from etcd for that long, by its own clock. The watch of the key is therefore asked for a sign of life each fifth of the
// TTL, and the node lists again after two thirds of it. [Writer.Commit] takes the staged change away in the transaction that puts its documents,
// so the node has them throughout.
//
// # Registering
//
// [Register] puts a node's own document under a lease, and [Lease.Run] keeps it there: it renews the lease each fifth of its
// TTL, puts the key again if it is gone, registers anew when the lease was lost, and removes both at the end. Each step that
// decides which node has a name is a transaction in etcd, so etcd never gives one to two nodes. The name of a node that was
// killed is free when its lease expires: Register waits for that, and gives up as soon as it sees the lease renewed.
//
// A node that holds a lock on its data directory knows that its predecessor is dead. It saves the lease in a file, and the
// next run under its name ends that lease at once, if the key is still attached to it.
//
// # Records
//
// The process of a colo server has a record, see package homes, under two keys without a lease: what it owns, and what it holds.
// [Records] follows the records of a colo by one watch, in rounds as a Watcher does. All events of one revision are one change, and so is a
// list.
// Only the process itself puts its record, and each put requires that its registration stands under its lease and that the
// record stands as put last:
//
//   - The transaction that registers it, for the first time or again, also puts a record that owns nothing and holds what is in
//     flight. Granting has stopped by then, and OnRegistered is called before it may begin again. This includes the transaction that
//     puts the key again after it was deleted.
//   - A put that was not answered may yet take place. The next put reads the record first, and adopts it if it is that of
//     the unanswered put. It then puts at another revision in any case, so that the unanswered one cannot take place any more.
//   - Each renewal verifies the record in the same transaction as the key. If the record is not one that the process put, it was deleted
//     by hand, or the store was restored: the process gives up its lease and registers again.
//   - Each answer of the store has a revision. If it is lower than one that was seen before the call, the store was restored; if the own
//     record is lost, the store may have been restored. OnRestored is called then, and the next list is marked as restored. A process
//     that starts begins with the revision that its predecessor saw.
//   - A process that ends removes its record with its registration, unless it still holds requests: then the record stays, and owns
//     nothing.
//
// [Records.Replace] changes or deletes the record of another process, on the condition that the record is unchanged and that
// the process is still not registered.
//
// # The lease fence
//
// A node that may act only under conditions that etcd guards, as a colo server grants permits, is given a deadline by
// [Fence.SetDeadline]. The deadline depends on this process's own clock alone, since a process that was stopped (by SIGSTOP, or
// because the machine was busy) has no other way to tell. That clock stands still while the machine is suspended or paused, so
// a node that wakes up may act for the rest of V beside its successor. V is the TTL less a tenth; an event comes at the time
// t, except that t of confirm is when the renewal began. Renewals begin every fifth of the TTL, and take a third of it at most.
//
//	state       deadline    event                                               next state
//	---------   ---------   -------------------------------------------------   ----------
//	NONE        none        confirm: etcd confirms the lease (and the record)    CONFIRMED
//	                        assume: the node starts while etcd is away           EXTENDED
//	CONFIRMED   t + V       confirm                                              CONFIRMED
//	                        unanswered, and Alone                                EXTENDED
//	                        unanswered, and Vouched until after the deadline     VOUCHED
//	                        suspect: etcd says that the lease, the key or the
//	                        record is gone                                       DOUBTED
//	VOUCHED     Vouched     heartbeat, while Vouched grows                       VOUCHED
//	                        heartbeat, and Alone                                 EXTENDED
//	                        confirm                                              CONFIRMED
//	                        suspect                                              DOUBTED
//	EXTENDED    t + V       heartbeat, twenty in each TTL, and Alone             EXTENDED
//	                        confirm                                              CONFIRMED
//	                        suspect                                              DOUBTED
//	DOUBTED     unchanged,  confirm                                              CONFIRMED
//	            but none    unanswered, and Alone                                EXTENDED
//	            with
//	            Records
//	LAPSED      past        confirm, before t + V                                CONFIRMED
//	                        unanswered, asked 20 s after the lapse, and Alone    EXTENDED
//	any         past        the deadline has passed                              LAPSED
//	            none        challenge: the key of another process is in the
//	                        place                                                LAPSED
//	            none        close: the node leaves                               NONE
//
// While etcd is away for all nodes, no other node can take over, so a process that is alone and keeps running goes on: that is
// EXTENDED. A node with siblings goes on as long as all of them have promised that none takes over: that is VOUCHED, which
// only a CONFIRMED node reaches. If only one node cannot reach etcd, and it knows of no sibling, it takes etcd to be away and keeps
// acting, while another node can register once the lease has expired. So two nodes can act at the same time in two cases: one was suspended,
// or one that knows of no sibling is cut off from etcd. A process that was stopped does not know for how long. Its connections of
// before may be dead although etcd is not away. So after a lapse, a call that fails shows that etcd is away only if it began 20 s later, when
// no such connection is left. A key in the place may be that of an earlier run, which is dead, or of another node with the same name: it
// ends the deadline, and Run ends too as soon as it is clear that the other process runs. With Records, a doubt ends the deadline at once: if
// the record is gone, other processes may own its engines.
//
// # Bounds
//
// Every call has a deadline; nothing waits for a connection that swallows packets. A table waits for 5 to 15 ms for changes that
// arrive together with the first. Between two tables there are at least 20 ms, or ten times the time that the last one took, up to
// 200 ms. Of each kind of warning, one document causes at most four lines at once, and then four a minute.
//
// Memory is that of the documents, three times: as fetched, as trees, as the table; and a fourth time while the file of last
// good documents is written, which is at most once a second and during at most a tenth of the time. An API key takes about
// 600 bytes, so 100 000 of them take 60 MB. The cost of a change does not depend on their number.
package etcd
