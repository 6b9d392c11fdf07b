// Package journal keeps the events of a node on disk, and ends the requests of a process that was killed.
//
// # Events
//
// Each node that carries a request appends one final event (phase "end") for it. A request that holds something until it
// ends, or that an entry has forwarded, has a "begin" as well, so that a killed process leaves a record of its open
// requests.
//
// A line of a segment is the CRC-32C of the JSON in hex, a space, the JSON and a newline. When Append returns, the line is in
// the page cache of the kernel, so a killed process loses no event that it appended; an incomplete last line is
// skipped and counted. Nothing is synced to the disk before Close, so a machine that loses power may lose its last
// seconds. A disk that takes no more data stops neither requests nor a start: lost events are counted, and the ends of
// requests of an earlier run are written once there is room.
//
// # Mapped segments
//
// On Linux, the end of the newest segment of each kind is mapped into memory, and a line is a store into it: a write costs a
// system call, in which the scheduler of Go may hand the processor over. The segment is extended by zeros first, a window of at
// most 256 KiB at a time, so that a full disk is an error of that write. A reader takes a zero at the begin of a line for the end
// of a segment that grows. The zeros are removed when the next segment is started, at Close, and by the next run after a kill;
// they count as bytes of the segment, and never exceed its capacity.
//
// The lines of a segment are written as on other systems, as soon as its end cannot be mapped: the disk has no room for a window,
// the file system maps no files, or another program has changed the file, so that a store faults or the size differs. The fault is
// recovered, and the loss of events that such a change may mean is reported as a problem.
//
// A store has to wait for the disk if the kernel has written that page to it since, and the scheduler does not know, as it would in a
// system call. So a system call makes the page writable before the first store of each second.
//
// # Segments
//
// There are four kinds of segments below DIR/events/NODE. Segments are numbered over all kinds, in the order in which they
// were started:
//
//	event                            segments
//
//	inference begin, inference end   billing    5.log          8.log            the ends of an earlier run, too
//	request end, not refused         requests   request-6.log
//	request end, refused             refusals   refused-4.log  refused-9.log
//	request begin                    begins     journal-7.log                   only the newest is kept
//
//	a segment                        carried begins | appended events, the newest segment of its kind grows
//
// An entry does not know yet, when a request begins, whether it will be refused. Its begin stands in a segment of begins,
// which only the next run of the node reads: among the requests, a storm of refusals would push out other requests by way
// of its begins.
//
// Each segment begins with a copy of every begin of its kind that is open at that moment (a carried begin). So the newest
// segment has all open begins of its kind, and the drop of an old one loses none. A reader meets an open begin once in each
// segment that it outlives, and removes duplicates by event id and phase. The first lines of a segment are written under
// another name, and the file is then renamed, so a segment has all carried begins or does not exist. This is no job for
// a general function that replaces a file: the file stays open for appending, and must not wait for a sync under the lock. The
// file of the next segment is open before it is needed, so that a process without free file descriptors loses no event.
//
// # Crash closing
//
// Open reads what an earlier run left, in three steps:
//
//  1. the newest segment of begins: every request that was open when it was started, or has begun since;
//  2. the newest segments of final events, and all of them that were written to since that segment of begins was started,
//     which their numbers say: the ends of those requests, and inferences with their ends;
//  3. each begin without an end gets one, with the outcome "crashed". These pending ends are the first lines of the next
//     billing segment; a process that is killed before that segment exists repeats all three steps.
//
// Before a segment is dropped that may hold ends of begins in the newest segment of begins, that one is started anew
// with the open begins only. Otherwise the next run would take requests for crashed that have ended.
//
// # Disk bound
//
// When a new segment would exceed the bound, the oldest segments of refusals are dropped first, then those of requests, then
// the oldest billing segments, and their events are counted. The size of one segment is reserved for each of refusals, requests
// and begins, so that a storm of refusals drops refusals only. The bound is exceeded only if the begins that are open at once
// fill it alone.
//
// The file counts says how many final events each full segment has, or had when it was dropped. So a [Follower] that was away for long, in
// this process or another, knows exactly how many events it has missed, up to the last 2000 segments.
//
// The disk may have less than the bound. Events that do not bill leave the last free space of the disk, the reserve, to those
// that do, of this node and of others on the same disk: when less is free, the oldest segment of refusals, else of requests, is
// dropped, and if that does not suffice, the event is not kept, and counted.
package journal
