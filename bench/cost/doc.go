// Package cost measures what a request costs on each way from clients to an engine: processor time, latency and memory. The ways
// are nginx, HAProxy, bare proxies that do nothing else, and Colonnade as two nodes and as one process.
//
// Each contestant is processes of its own, so that its processor time, by the kernel's clock of each process, is known apart from
// that of clients and engine. Contestants work in turns within each round, every second round in the reverse order, so a
// slow drift of the machine hits all of them alike. Other processes can only add to a figure: the least of all rounds is the
// most reliable figure, the median is what mostly happened, and both are reported.
//
// Clients and engine write prepared bytes and parse as little as HTTP allows, since they share the machine with the contestants.
// Colonnade is started from its binaries and gets its documents from its own CLI, as an operator would do it.
package cost
