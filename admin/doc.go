// Package admin is a node's second listener, for those who run it: metrics, health, debug pages and profiles.
//
// It holds no state of its own: each page calls a function of the node when it is asked for. /debug/check runs every
// invariant that can be checked from inside. Nothing here is for clients, and nothing asks who is calling, so a node
// listens on loopback unless it is told otherwise.
package admin
