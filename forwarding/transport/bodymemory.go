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

// SwapBody passes a whole body to a function that must keep it until it has been written, and that returns an earlier body that was written, or nil. From then
// on the body is valid only while it is kept. A long one, and one that is our own, stays with the response.
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
