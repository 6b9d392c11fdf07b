// Package release has the end-to-end tests of promise P2, never leaked: a permit is released exactly once, within 500 ms
// of the end, however the request ends: its client leaves while it waits, before the first byte or in mid-stream
// (client_cancel), a session ends or breaks (session_end), or a node drains (drain).
package release
