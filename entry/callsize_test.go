package entry

import (
	"testing"
	"unsafe"
)

// Each request allocates a call, and the next size class of Go's allocator is 896 bytes: a request without limits must not pay for those
// that have some. Fields of one byte stand together, so that there is room for more.
func TestCallStaysInItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(call{}); size > 768 {
		t.Errorf("a call has %d bytes, want at most 768", size)
	}
}
