// Package gossip reports quickly which server processes of a colo live. It decides nothing: without it, or with its port shut, every
// decision is the same, and a dead server is noticed later.
//
// # Source
//
// The protocol is that of hashicorp/memberlist: SWIM (Das, Gupta and Motivala, 2002) with the suspicion of Lifeguard (Dadgar, Phillips and
// Currey, 2018). Each member probes the others in turn: over UDP, then through third members, and over TCP. A member that does not answer
// is suspected, and is dead unless it refutes that. All callbacks of the library are in adapter.go; all of its traffic passes transport.go.
//
// # Bounds
//
// A killed process is reported dead after a probe without an answer (0.2 s) and a time of suspicion (0.8 s with up to ten servers, 1.2 s
// with 32). That makes 1.2 s with two servers, at most 1.4 s with three, and 1.9 s on average with 32. A process that is stopped and goes
// on is reported dead, and then alive again. A process that is cut off from all others finds all of them dead. With 30 % of packets and
// connections lost, a living process was found dead for 0.1 % of the time.
//
// Two halves that were cut from each other for more than half a minute would stay apart for ever: the library gossips no longer to members
// that are dead for so long. So every five seconds, each member asks the registered servers that are not alive here to join. That is also
// how members find each other at first.
//
// A server that has never seen a registered sibling only keeps the port open: the protocol runs from the first sibling on.
//
// # Names
//
// A member is a process: its name is that of the node with the boot id. So a restarted server is a new member at once, and no report about
// its earlier process counts for it.
//
// # Authentication
//
// Messages are encrypted and authenticated with AES-256-GCM, and the name of the colo is authenticated with them. The keys are derived from
// the fleet's keys for the gossip of this colo alone (hop.Keys.Derive): one key never serves two purposes, and a server of another colo
// cannot take part. The first key encrypts and all decrypt, so keys are rotated as for hop tokens, without
// a restart (Gossip.ReplaceKeys). Each holder of a key is
// trusted: it can report any server dead. The library does not detect replays: a recorded message can make a server suspected, which that
// server refutes, and a dead process look alive until the next probes. Random nonces are safe for 2³² messages of a key. Three servers send those in four years, and 32 in five months, so a
// large colo rotates its keys sooner.
//
// Before decryption, packets are bounded to 2 KiB, and streams, which carry the state of all members, to 256 KiB and eight at a time.
package gossip
