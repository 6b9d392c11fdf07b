package transport

// maxSwapped is the longest body whose memory is used again, in bytes.
const maxSwapped = 4 << 10

// takeBodyMemory sets held to memory for a body of known length: that of an earlier one, if it has room.
func (resp *Response) takeBodyMemory() {
	size := min(resp.head.length, maxHeld+readBuffer)
	if size <= maxSwapped {
		if m, ok := resp.transport.bodies.Get().(*[]byte); ok && int64(cap(*m)) >= size {
			resp.held, resp.memory = (*m)[:0], m
			return
		}
	}
	resp.held = make([]byte, 0, size)
}

// SwapBody passes the memory of a whole body to a function, which keeps it until the body has been written, and returns the memory of a body that was written
// before, or nil. The body is valid for as long as that function keeps it. A long one, and one that is our own, stays with the response.
func (resp *Response) SwapBody(keep func(body []byte) (earlier []byte)) {
	if resp.transport == nil || !resp.whole || resp.swapped || cap(resp.held) > maxSwapped {
		return
	}
	m := resp.memory
	if m == nil {
		m = new([]byte)
	}
	resp.memory, resp.swapped = nil, true
	if *m = keep(resp.held); cap(*m) > 0 && cap(*m) <= maxSwapped {
		resp.transport.bodies.Put(m)
	}
}
