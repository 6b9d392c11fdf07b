package colo

import (
	"testing"
	"unsafe"
)

// Each request allocates a call, and the next size class of Go's allocator is 1792 bytes. An object of this size has a header of 8 bytes, too.
// Fields of one byte stand together, so that there is room for more.
func TestCallStaysInItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(call{}); size > 1528 {
		t.Errorf("a call has %d bytes, want at most 1528", size)
	}
}
