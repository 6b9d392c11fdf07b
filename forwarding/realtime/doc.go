// Package realtime relays WebSockets between hijacked connections. A [Tunnel] copies bytes and does not parse frames; entries use it.
// A [Session] relays messages in pieces, with pings to both ends and limits on silence, stalled writes, message size and fragments;
// colos use it. Both find out which end has ended the connection and why, and tell the other end.
package realtime
