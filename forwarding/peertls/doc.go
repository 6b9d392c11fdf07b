// Package peertls authenticates the nodes of a fleet to each other, by mutual TLS. Certificates are issued by authorities of the
// fleet's own and name nodes in a URI (see [Identity]), not hosts. A [TrustStore] holds a node's certificate and the authorities
// that it trusts, and makes the TLS configurations of both sides. A [Certificate] without authorities is that of a public
// listener. Files are read again when they have changed (package reload).
package peertls
