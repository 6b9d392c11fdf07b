// Package admin serves a node's second listener, for its operators: metrics, health, debug pages and profiles.
//
// It has no state of its own: each request calls a function of the node. /debug/check runs every invariant that can be
// checked from inside. No page is for clients, and none but the admin API (package api) authenticates its caller, so a node listens on loopback by default. Browsers
// of operators reach loopback too, so pages of other origins are refused, and names that are not the node's own.
package admin
