package entry

import (
	"testing"
	"unsafe"
)

// Each request allocates a call, and the next size class of Go's allocator is 1408 bytes. An object of this size has a header of 8 bytes, too.
func TestCallStaysInItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(call{}); size > 1272 {
		t.Errorf("a call has %d bytes, want at most 1272", size)
	}
}
