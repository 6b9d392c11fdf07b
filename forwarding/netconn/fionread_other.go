//go:build !linux

package netconn

// FIONREAD is the ioctl of that name of the BSDs and of macOS, which returns the number of bytes that have arrived.
const FIONREAD = 0x4004667f
