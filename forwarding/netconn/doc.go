// Package netconn provides TCP and TLS connections for streams. The deadlines of a [Conn] roll forward with every read and write,
// and any goroutine may cancel it. A [TLSConn] distinguishes the proper end of a stream from a truncated one.
package netconn
