// Package netconn has TCP and TLS connections whose deadlines roll forward with what they carry, that can be cancelled from any
// goroutine, and whose end says whether it was meant: see [Conn] and [TLSConn].
package netconn
