package fairqueue

// place names a heap among those that a flow can stand in.
type place uint8

const (
	inOrder    place = iota // of its band, by turn
	inAges                  // of its band, by oldest head
	inRequests              // of its band, by requests held for weight
	inBytes                 // of its band, by bytes held for weight

	placeCount = 4
)

// heap is a binary heap of flows which know where they stand in it, so that any can be moved or removed in O(log n). It
// holds at most one flow of an account, so that when an account changes no more than one key is out of order at a time.
// (container/heap would cost an interface call for each comparison and move, and this is the hottest code there is.)
type heap struct {
	place  place
	before func(a, b *flow) bool
	flows  []*flow
}

func (h *heap) top() *flow {
	if len(h.flows) == 0 {
		return nil
	}
	return h.flows[0]
}

func (h *heap) has(f *flow) bool { return f.at[h.place] > 0 }

func (h *heap) add(f *flow) {
	h.flows = append(h.flows, f)
	h.set(len(h.flows)-1, f)
	h.up(len(h.flows) - 1)
}

func (h *heap) remove(f *flow) {
	if !h.has(f) {
		return
	}
	i, last := int(f.at[h.place])-1, len(h.flows)-1
	moved := h.flows[last]
	h.flows[last] = nil
	h.flows = h.flows[:last]
	f.at[h.place] = 0
	if moved != f {
		h.set(i, moved)
		h.fix(moved)
	}
}

// fix restores the order after the key of f changed.
func (h *heap) fix(f *flow) {
	i := int(f.at[h.place]) - 1
	if h.up(i) == i {
		h.down(i)
	}
}

// reorder restores the order after any number of keys, or before itself, changed.
func (h *heap) reorder() {
	for i := len(h.flows)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap) set(i int, f *flow) {
	h.flows[i] = f
	f.at[h.place] = int32(i) + 1
}

func (h *heap) up(i int) int {
	f := h.flows[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(f, h.flows[parent]) {
			break
		}
		h.set(i, h.flows[parent])
		i = parent
	}
	h.set(i, f)
	return i
}

func (h *heap) down(i int) {
	f := h.flows[i]
	for {
		child := 2*i + 1
		if child >= len(h.flows) {
			break
		}
		if right := child + 1; right < len(h.flows) && h.before(h.flows[right], h.flows[child]) {
			child = right
		}
		if !h.before(h.flows[child], f) {
			break
		}
		h.set(i, h.flows[child])
		i = child
	}
	h.set(i, f)
}
