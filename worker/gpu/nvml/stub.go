//go:build !cgo || !linux

package nvml

import (
	"errors"
	"time"

	"colonnade/worker/gpu"
)

// Driver is the driver of the machine's GPUs, which this build does not know.
type Driver struct{}

// Open fails.
func Open(string) (*Driver, error) {
	return nil, errors.New("this build of colonnade-gpus has no NVML: it was built without cgo, or not for Linux")
}

// Read returns nothing.
func (*Driver) Read() gpu.Reading { return gpu.Reading{} }

// Wait returns nothing.
func (*Driver) Wait(time.Duration) (gpu.Event, bool, error) {
	return gpu.Event{}, false, errors.New("this build has no NVML")
}
