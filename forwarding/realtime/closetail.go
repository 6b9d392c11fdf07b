package realtime

import "github.com/gorilla/websocket"

const (
	closeHead      = 0x80 | websocket.CloseMessage // the first byte of a close frame: final, with its opcode
	maxCloseFrame  = 2 + 125
	closeCodeBytes = 2
)

// closeTail keeps the last bytes that a server has sent, since a tunnel does not parse frames: a server that ends a session well has
// sent a close frame last, whose bytes are not masked.
type closeTail struct {
	bytes [maxCloseFrame]byte
	n     int
}

// add takes the next bytes.
func (t *closeTail) add(p []byte) {
	if len(p) >= maxCloseFrame {
		t.n = copy(t.bytes[:], p[len(p)-maxCloseFrame:])
		return
	}
	keep := min(t.n, maxCloseFrame-len(p))
	copy(t.bytes[:], t.bytes[t.n-keep:t.n])
	t.n = keep + copy(t.bytes[keep:], p)
}

// closed reports whether the bytes end with a close frame.
func (t *closeTail) closed() bool {
	for i := 0; i+1 < t.n; i++ {
		size := t.n - i - 2
		if t.bytes[i] == closeHead && int(t.bytes[i+1]) == size && (size == 0 || size >= closeCodeBytes) {
			return true
		}
	}
	return false
}
