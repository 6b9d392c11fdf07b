// Package cost measures what a request costs between clients and an engine: processor time, latency and memory. The contestants
// are nginx, HAProxy, bare proxies that do nothing else, and Colonnade as two nodes and as one process.
//
// Each contestant runs in processes of its own, so its processor time excludes that of clients and engine. Contestants work in turns within each round, every second round in the reverse order, so a
// slow drift of the machine hits all of them alike. Other processes can only add to a figure, so the least of all rounds is
// reported beside the median.
//
// Clients and engine write prepared bytes and parse as little as HTTP allows, since they share the machine with the contestants.
// Colonnade is started from its binaries and gets its documents from its own CLI, as an operator would do it.
package cost
