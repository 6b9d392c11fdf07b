package fairqueue

// place names a heap among those that a flow can stand in.
type place uint8

const (
	inOrder    place = iota // band.order
	inAges                  // band.ages
	inRequests              // band.held[requests]
	inBytes                 // band.held[bytes]

	placeCount = 4
)

// key orders the flows of a heap: by level, equals by the age and then the number of an item, the least first. No two
// flows in a heap have the same key.
type key struct {
	level float64
	age   int64
	seq   int64
}

func (k key) before(other key) bool {
	if k.level != other.level {
		return k.level < other.level
	}
	if k.age != other.age {
		return k.age < other.age
	}
	return k.seq < other.seq
}

// heap is a binary heap of flows that know their index in it, so that any flow can be moved or removed in O(log n). It
// has at most one flow of an account, so that a change of an account puts at most one key out of order. Keys are stored
// beside the flows: to compute them for each comparison would be a cache miss each, with thousands of accounts.
// (container/heap would cost an interface call for each comparison and move, and this is the hottest code of the
// gateway.)
type heap struct {
	place   place
	key     func(*flow) key
	entries []entry
}

type entry struct {
	key  key
	flow *flow
}

func (h *heap) top() *flow {
	if len(h.entries) == 0 {
		return nil
	}
	return h.entries[0].flow
}

func (h *heap) has(f *flow) bool { return f.at[h.place] > 0 }

func (h *heap) add(f *flow) {
	h.entries = append(h.entries, entry{})
	h.up(len(h.entries)-1, entry{h.key(f), f})
}

func (h *heap) remove(f *flow) {
	if !h.has(f) {
		return
	}
	i, last := int(f.at[h.place])-1, len(h.entries)-1
	moved := h.entries[last]
	h.entries[last] = entry{}
	h.entries = h.entries[:last]
	f.at[h.place] = 0
	if i < last {
		h.sift(i, moved)
	}
}

// fix restores the order after the key of f changed.
func (h *heap) fix(f *flow) {
	i := int(f.at[h.place]) - 1
	if k := h.key(f); k != h.entries[i].key {
		h.sift(i, entry{k, f})
	}
}

// reorder restores the order after any number of keys, or the key function, changed.
func (h *heap) reorder() {
	for i := range h.entries {
		h.entries[i].key = h.key(h.entries[i].flow)
	}
	for i := len(h.entries)/2 - 1; i >= 0; i-- {
		h.down(i, h.entries[i])
	}
}

func (h *heap) set(i int, e entry) {
	h.entries[i] = e
	e.flow.at[h.place] = int32(i) + 1
}

// sift puts e where it belongs, starting from the free index i.
func (h *heap) sift(i int, e entry) {
	if i > 0 && e.key.before(h.entries[(i-1)/2].key) {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

func (h *heap) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / 2
		if !e.key.before(h.entries[parent].key) {
			break
		}
		h.set(i, h.entries[parent])
		i = parent
	}
	h.set(i, e)
}

func (h *heap) down(i int, e entry) {
	for {
		child := 2*i + 1
		if child >= len(h.entries) {
			break
		}
		if right := child + 1; right < len(h.entries) && h.entries[right].key.before(h.entries[child].key) {
			child = right
		}
		if !h.entries[child].key.before(e.key) {
			break
		}
		h.set(i, h.entries[child])
		i = child
	}
	h.set(i, e)
}
