package entry

import (
	"testing"
	"unsafe"
)

// A call is allocated for each request. With the allocator's header of 8 bytes, 1272 bytes fill the class of 1280; the next is 1408.
func TestCallStaysInItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(call{}); size > 1272 {
		t.Errorf("a call has %d bytes, want at most 1272", size)
	}
}
