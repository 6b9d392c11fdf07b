// Package netconn provides TCP and TLS connections for streams. The deadlines of a [Conn] roll forward with every read and write,
// and any goroutine may cancel it. A [TLSConn] distinguishes the proper end of a stream from a truncated one. Both lie over a [Socket],
// whose system calls and deadlines cost little: a write over loopback takes longer than the 20 µs after which the monitor of the Go
// runtime takes the processor away from a thread in a system call, and each deadline that is moved takes the runtime's locks.
package netconn
