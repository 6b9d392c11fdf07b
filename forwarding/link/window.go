package link

// fullWindow is how many bytes of a stream may be on their way or unread, and so what a reader that stalls costs.
const fullWindow = 64 << 10

// window is what the other side of a stream may send.
type window struct {
	left int // how many bytes it may send
	read int // how many bytes were read since the other side was last informed
}

func newWindow() window { return window{left: fullWindow} }

// take counts n bytes that have arrived, and reports whether the window had room for them.
func (w *window) take(n int) bool {
	w.left -= n
	return w.left >= 0
}

// release counts n bytes that were read, and returns by how many bytes the other side may send more, once that is half the window.
func (w *window) release(n int) (more int) {
	w.read += n
	if w.read < fullWindow/2 {
		return 0
	}
	more, w.read = w.read, 0
	w.left += more
	return more
}

// buffer is what has arrived and was not read.
type buffer struct {
	bytes []byte
	next  int // to be read
}

func newBuffer() any { return new(buffer) }

// take moves bytes to p.
func (b *buffer) take(p []byte) int {
	n := copy(p, b.bytes[b.next:])
	b.next += n
	return n
}

func (b *buffer) isEmpty() bool { return b.next == len(b.bytes) }

// add appends bytes, and moves what is there to the begin before it takes more memory.
func (b *buffer) add(p []byte) {
	if b.next > 0 && len(b.bytes)+len(p) > cap(b.bytes) {
		b.bytes, b.next = b.bytes[:copy(b.bytes, b.bytes[b.next:])], 0
	}
	b.bytes = append(b.bytes, p...)
}
