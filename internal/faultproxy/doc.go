// Package faultproxy carries TCP connections to a server, with faults: delay, stalls, lost bytes, resets, half-closed, cut and dripping
// connections, and refused ones. It works in user space, so it needs no privileges and no support of the kernel.
//
// Each direction of a connection is a [pipe]: one goroutine reads, another writes what has been read when it is due. So bytes stay in
// order, and a delay does not limit how many are on their way, up to a window of 16 MiB. The end of a stream travels like its bytes: a
// FIN becomes a FIN in that direction only, and an RST becomes an RST.
//
// Bounds: a connection holds at most 16 MiB of each direction while it is delayed, and otherwise 64 KiB, beside the buffers of the kernel.
// On Linux, timers of Go are late by up to a millisecond, so the last two milliseconds of a delay are slept by a thread; what is left of
// the error is the timer slack of the kernel (50 µs), and the time to wake two goroutines.
//
// A proxy cannot delay or lose the handshake of TCP: a connect succeeds at once, also if the server refuses it. The client's connection is
// reset then. Only [Proxy.Refuse] has connects refused.
package faultproxy
