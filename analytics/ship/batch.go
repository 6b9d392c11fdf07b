package ship

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"

	"colonnade/analytics"
)

// Batch is events of one node, in the order in which they are sent. A sink must not change it.
type Batch struct {
	Node  string
	First string // position of the first event in the journal, as part of a file name; a batch that is sent again begins with the same event

	raw     []byte // JSON objects, each with a newline
	ends    []int  // of the lines in raw, behind the newline
	id      string // empty until it is asked for
	decoded []analytics.Event

	filtered int    // events that were passed and are not for the sink
	pause    func() // nil = none
}

const (
	// PieceBytes is how many bytes a sink handles before it lets others have the processor.
	PieceBytes = 64 << 10
	// PieceEvents is the same in events, for work that takes several microseconds for each.
	PieceEvents = 128
)

// reset empties a batch. It keeps its memory.
func (b *Batch) reset() {
	raw, ends := b.raw[:0], b.ends[:0]
	*b = Batch{Node: b.Node, raw: raw, ends: ends, pause: b.pause}
}

// NewBatch returns a batch of JSON objects, one in each line.
func NewBatch(node, first string, lines ...[]byte) *Batch {
	b := &Batch{Node: node, First: first}
	for _, line := range lines {
		b.add(line)
	}
	return b
}

// add appends a copy of a line without its newline.
func (b *Batch) add(line []byte) {
	b.id, b.decoded = "", nil
	b.raw = append(append(b.raw, line...), '\n')
	b.ends = append(b.ends, len(b.raw))
}

// Len returns the number of events.
func (b *Batch) Len() int { return len(b.ends) }

// NDJSON returns the events as JSON objects, each followed by a newline.
func (b *Batch) NDJSON() []byte { return b.raw }

// Pieces yields NDJSON in pieces, with a pause between two.
func (b *Batch) Pieces() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for piece := range slices.Chunk(b.raw, PieceBytes) {
			if !yield(piece) {
				return
			}
			b.Pause()
		}
	}
}

// Pause lets others have the processor for a moment, if the shipper has a rate: a sink calls it after work that has kept the processor busy.
func (b *Batch) Pause() {
	if b.pause != nil {
		b.pause()
	}
}

// Line returns the JSON object of the event i.
func (b *Batch) Line(i int) []byte { return b.raw[b.start(i) : b.ends[i]-1] }

// Lines yields the JSON objects of the events.
func (b *Batch) Lines() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i := range b.ends {
			if !yield(i, b.Line(i)) {
				return
			}
		}
	}
}

func (b *Batch) start(i int) int {
	if i == 0 {
		return 0
	}
	return b.ends[i-1]
}

// ID returns an id of the content: the same when the same batch is sent again, another for any other. It names the place of the first event, which
// batches of a node have in common only when events are sent again, so that a fast hash is enough.
func (b *Batch) ID() string {
	if b.id == "" {
		b.id = fmt.Sprintf("%s-%016x", b.First, xxhash.Sum64(b.raw))
	}
	return b.id
}

// Events returns the events, decoded. It pauses between pieces. An error is one of [Rejected].
func (b *Batch) Events() ([]analytics.Event, error) {
	if b.decoded != nil {
		return b.decoded, nil
	}
	decoded := make([]analytics.Event, b.Len())
	for i, line := range b.Lines() {
		if err := json.Unmarshal(line, &decoded[i]); err != nil {
			return nil, Rejected(fmt.Errorf("cannot decode event: %w", err))
		}
		if i%PieceEvents == PieceEvents-1 {
			b.Pause()
		}
	}
	b.decoded = decoded
	return decoded, nil
}

// part returns the events from i up to j as a batch of their own, which shares their bytes.
func (b *Batch) part(i, j int) *Batch {
	from := b.start(i)
	h := &Batch{Node: b.Node, First: fmt.Sprintf("%s+%d", b.First, i), raw: b.raw[from:b.ends[j-1]:b.ends[j-1]], ends: make([]int, 0, j-i), pause: b.pause}
	for _, end := range b.ends[i:j] {
		h.ends = append(h.ends, end-from)
	}
	return h
}
