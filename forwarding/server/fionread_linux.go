package server

import "golang.org/x/sys/unix"

// fionread is the ioctl FIONREAD, which returns the number of bytes that have arrived.
const fionread = unix.TIOCINQ
