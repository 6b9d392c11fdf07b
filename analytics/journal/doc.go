// Package journal keeps events in segments on disk.
//
// Each node that carries a request logs one final event ("end") for it; a request that holds something until it ends,
// or that an entry has sent on, has a "begin" as well, so that a killed process leaves a trace of what it had in hand.
// A line of a segment is the CRC-32C of the JSON in hex, a space, the JSON and a newline. Append hands each line to the
// kernel in one write before it returns: a killed process loses nothing that it had appended, a torn last line is
// skipped and counted. Nothing is synced to the disk on the way, so a machine that loses power may lose its last
// seconds. A disk that takes nothing stops no request and no start: what is lost is counted, and ends of an earlier run
// are written once there is room.
//
// There are three kinds of segments: refusals (refused-N.log); everything else, which is what bills are made of
// (N.log); and the journal (journal-N.log), where begins of requests stand until they have ended. An entry does not
// know yet whether such a request will be refused, and a storm of refusals must not push out bills by way of their
// begins. The journal is for the next run only: readers do not see it, and its older segments are removed.
//
// Each segment begins with a copy of every begin of its kind that is still open. So the newest one alone tells what a
// killed process had in hand, and dropping an old segment never loses an open begin. The ends of what is open in the
// journal are in segments that are newer, which numbers tell: they rise over all kinds. Before such a segment is
// dropped, the journal is begun anew, or what has ended would be taken for crashed. Readers see an open begin more than
// once and remove duplicates by event id and phase. A new segment gets its first lines under another name and is then
// renamed: it is there with all of them or not at all.
//
// Space is bounded: when a new segment would exceed the bound, the oldest segments of refusals go first, then the
// oldest of the rest, and what they held is counted. One segment's worth of space is kept for refusals, and one for the
// journal, so a storm of refusals drops only refusals. The bound is exceeded only by begins that are open at once,
// should they alone fill it.
package journal
