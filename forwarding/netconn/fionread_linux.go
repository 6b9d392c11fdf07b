package netconn

import "golang.org/x/sys/unix"

// FIONREAD is the ioctl of that name, which returns the number of bytes that have arrived.
const FIONREAD = unix.TIOCINQ
