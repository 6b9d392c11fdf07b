// Package realtime carries WebSockets between connections that were taken over. A [Tunnel] carries bytes and sees no frames; a
// [Session] carries messages, in pieces, with pings both ways and limits on silence, standstill, size and fragments. Both
// find out which side ended the connection, and tell the other.
package realtime
