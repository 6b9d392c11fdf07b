package kvevents

import "errors"

var errBatch = errors.New("the batch is not understood")

// Batch is what the events of one message come to.
type Batch struct {
	Cleared         bool // the cache was emptied; the counts are of events after that
	Stored, Removed int  // blocks
	BlockTokens     int  // tokens of a block, as the last stored one had them; 0: none was stored
	Events          int
}

// maxBlockTokens bounds the tokens of a block; engines have 1 to 256.
const maxBlockTokens = 1 << 16

// Parse reads a batch. The error is that it is no batch; what was read until then is returned too.
func Parse(payload []byte) (Batch, error) {
	r := reader{rest: payload}
	var b Batch
	n, isMap := r.container()
	for at := range n {
		events := !isMap && at == 1
		if isMap {
			events = string(r.text()) == "events"
		}
		if !events {
			r.skip()
			continue
		}
		list, isMap := r.container()
		if isMap {
			r.bad = true
		}
		for range list {
			b.event(&r)
			if r.bad {
				break
			}
		}
	}
	if r.bad || len(r.rest) > 0 || !isMap && n < 2 {
		return b, errBatch
	}
	return b, nil
}

// event has the fields of an event that count.
type event struct {
	name   string
	blocks int
	size   int
	beside bool // of another medium or group
}

// fields has the names of the fields of events that are lists, in order.
var fields = map[string][]string{
	"BlockStored": {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
		"group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"},
	"BlockRemoved":     {"type", "block_hashes", "medium", "group_idx"},
	"AllBlocksCleared": {"type"},
}

// event reads one event and adds it.
func (b *Batch) event(r *reader) {
	n, isMap := r.container()
	var e event
	var names []string
	for at := range n {
		switch {
		case isMap:
			e.field(r, string(r.text()))
		case at == 0:
			e.field(r, "type")
			names = fields[e.name]
		case at < len(names):
			e.field(r, names[at])
		default:
			r.skip()
		}
		if r.bad {
			return
		}
	}
	b.add(e)
}

// field reads the value of a field.
func (e *event) field(r *reader, name string) {
	switch name {
	case "type":
		e.name = string(r.text())
	case "block_hashes":
		n, isMap := r.container()
		e.blocks, r.bad = n, r.bad || isMap
		for range n {
			r.skip()
		}
	case "block_size":
		e.size = int(min(r.whole(), maxBlockTokens))
	case "medium":
		if medium := r.text(); medium != nil && string(medium) != "GPU" {
			e.beside = true
		}
	case "group_idx":
		e.beside = e.beside || r.whole() > 0
	default:
		r.skip()
	}
}

func (b *Batch) add(e event) {
	b.Events++
	switch {
	case e.name == "AllBlocksCleared":
		b.Cleared, b.Stored, b.Removed = true, 0, 0
	case e.beside:
	case e.name == "BlockStored":
		b.Stored += e.blocks
		if e.size > 0 {
			b.BlockTokens = e.size
		}
	case e.name == "BlockRemoved":
		b.Removed += e.blocks
	}
}
