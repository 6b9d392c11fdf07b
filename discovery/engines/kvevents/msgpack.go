package kvevents

import "encoding/binary"

// reader reads MessagePack in place. Unlike a library that decodes into values, it costs no memory, however long the lists of tokens are that
// are skipped. After the first error, bad is set and every value is zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() { r.bad, r.rest = true, nil }

// take returns the next n bytes.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// number reads a big-endian number of so many bytes.
func (r *reader) number(size uint64) uint64 {
	b := r.take(size)
	if b == nil {
		return 0
	}
	var all [8]byte
	copy(all[8-size:], b)
	return binary.BigEndian.Uint64(all[:])
}

// container reads the head of a list or a map, and returns the number of its values or pairs; nil is an empty list.
func (r *reader) container() (n int, isMap bool) {
	var size uint64
	switch c := r.byte(); {
	case r.bad || c == 0xc0:
		return 0, false
	case c>>4 == 0x9:
		size = uint64(c & 0xf)
	case c>>4 == 0x8:
		size, isMap = uint64(c&0xf), true
	case c == 0xdc || c == 0xdd:
		size = r.number(2 << (c - 0xdc))
	case c == 0xde || c == 0xdf:
		size, isMap = r.number(2<<(c-0xde)), true
	default:
		r.fail()
	}
	if size > uint64(len(r.rest)) { // each value has a byte at least
		r.fail()
		return 0, false
	}
	return int(size), isMap
}

// text reads a string; nil if it is nil.
func (r *reader) text() []byte {
	c := r.byte()
	switch {
	case r.bad || c == 0xc0:
		return nil
	case c>>5 == 0x5:
		return r.take(uint64(c & 0x1f))
	case c >= 0xd9 && c <= 0xdb:
		return r.take(r.number(1 << (c - 0xd9)))
	}
	r.fail()
	return nil
}

// whole reads an integer; 0 if it is nil or negative.
func (r *reader) whole() uint64 {
	c := r.byte()
	switch {
	case r.bad || c == 0xc0 || c >= 0xe0:
		return 0
	case c < 0x80:
		return uint64(c)
	case c >= 0xcc && c <= 0xcf:
		return r.number(1 << (c - 0xcc))
	case c >= 0xd0 && c <= 0xd3:
		size := uint64(1) << (c - 0xd0)
		n := r.number(size)
		if n>>(8*size-1) == 1 {
			return 0
		}
		return n
	}
	r.fail()
	return 0
}

// skip reads a value of any type. It counts what is left to skip instead of nesting, so depth costs nothing.
func (r *reader) skip() {
	for left := uint64(1); left > 0 && !r.bad; left-- {
		switch c := r.byte(); {
		case c>>4 == 0x8:
			left += 2 * uint64(c&0xf)
		case c>>4 == 0x9:
			left += uint64(c & 0xf)
		case c == 0xdc || c == 0xdd:
			left += r.number(2 << (c - 0xdc))
		case c == 0xde || c == 0xdf:
			left += 2 * r.number(2<<(c-0xde))
		default:
			r.take(r.size(c))
		}
		if left > uint64(len(r.rest))+1 {
			r.fail()
		}
	}
}

// size returns how many bytes a value has, other than a list or a map, behind its first byte and its length.
func (r *reader) size(c byte) uint64 {
	switch {
	case c < 0x80 || c >= 0xe0 || c == 0xc0 || c == 0xc2 || c == 0xc3:
		return 0
	case c>>5 == 0x5:
		return uint64(c & 0x1f)
	case c >= 0xc4 && c <= 0xc6:
		return r.number(1 << (c - 0xc4))
	case c >= 0xc7 && c <= 0xc9:
		return r.number(1<<(c-0xc7)) + 1
	case c == 0xca || c == 0xcb:
		return 4 << (c - 0xca)
	case c >= 0xcc && c <= 0xcf:
		return 1 << (c - 0xcc)
	case c >= 0xd0 && c <= 0xd3:
		return 1 << (c - 0xd0)
	case c >= 0xd4 && c <= 0xd8:
		return 1<<(c-0xd4) + 1
	case c >= 0xd9 && c <= 0xdb:
		return r.number(1 << (c - 0xd9))
	}
	r.fail()
	return 0
}
