//go:build !linux

package server

// fionread is the ioctl FIONREAD of the BSDs and of macOS, which returns the number of bytes that have arrived.
const fionread = 0x4004667f
