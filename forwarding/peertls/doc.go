// Package peertls is how nodes of a fleet know each other: by certificates of the fleet's own authorities that name them in a
// URI (see [Identity]). A [TrustStore] holds a node's certificate and the authorities that it believes; both are read again
// when their files change.
package peertls
