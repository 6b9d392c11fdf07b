//go:build !linux

package child

import (
	"errors"
	"time"
)

var errNotLinux = errors.New("what a process uses is measured on Linux only")

// Memory is the resident memory of a process, in bytes.
type Memory struct{ All, Own float64 }

// CPU measures on Linux only.
func CPU(...int) (time.Duration, error) { return 0, errNotLinux }

// ResidentMemory measures on Linux only.
func ResidentMemory(...int) (Memory, error) { return Memory{}, errNotLinux }

// Children finds on Linux only.
func Children(int) ([]int, error) { return nil, errNotLinux }
