// Package analytics records what happened: events in segments on disk, and metrics.
//
// # Events
//
// Each node that carries a request logs one final event ("end") for it; a request that holds something until it ends
// has a "begin" as well, so that a killed process leaves a trace of what it had in hand. A line of a segment is the
// CRC-32C of the JSON in hex, a space, the JSON and a newline. Append hands each line to the kernel in one write
// before it returns: a killed process loses nothing that it had appended, a torn last line is skipped and counted.
// Nothing is synced to the disk on the way, so a machine that loses power may lose its last seconds.
//
// Each segment begins with a copy of every begin that is still open. So the newest segment alone tells what a killed
// process had in hand, and dropping an old segment never loses an open begin. Readers see such a begin more than once
// and remove duplicates by event id and phase. A new segment gets its first lines under another name and is then
// renamed: it is there with all of them or not at all.
//
// Space is bounded: when a new segment would exceed the bound, the oldest segments of refusals go first, then the
// oldest of the rest, and what they held is counted. One segment's worth of space is kept for refusals, so a storm of
// them drops only refusals. The bound is exceeded only by begins that are open at once, should they alone fill it.
//
// # Metrics
//
// Counters and histograms are fed from final events; everything that is a state (permits, queues, configuration) is
// read when it is scraped and never mirrored. Labels hold names from the fleet table, never text from a request.
package analytics
