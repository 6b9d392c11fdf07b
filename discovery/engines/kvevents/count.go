package kvevents

// State is what the events of one engine say of its cache.
type State struct {
	Tokens   int  // resident, while Known
	Known    bool // the count holds
	Evicting bool // and the engine has removed blocks, so that Tokens is about what the cache has room for

	Clears    uint64 // times that the engine emptied its cache
	Restarts  uint64 // times that the engine began anew, which its next event shows
	Events    uint64 // read
	Gaps      uint64 // times that messages were lost or not understood
	Connected bool
	Error     string // of the last connection; empty while connected
}

// count follows the messages of one engine.
type count struct {
	state       State
	begun       bool
	next        uint64 // sequence number of the next message
	blocks      int
	blockTokens int
}

// maxBlocks bounds the count, whatever a publisher says.
const maxBlocks = 1 << 40

// take takes a message.
func (c *count) take(seq uint64, payload []byte) {
	switch {
	case !c.begun:
		c.begun, c.state.Known = true, seq == 0
	case seq == c.next:
	case seq < c.next: // the engine began anew
		c.state.Restarts++
		c.empty()
		c.state.Known = seq == 0
	default:
		c.lose()
	}
	c.next = seq + 1
	b, err := Parse(payload)
	c.state.Events += uint64(b.Events)
	c.add(b)
	if err != nil {
		c.lose()
	}
}

func (c *count) add(b Batch) {
	if b.Cleared {
		c.state.Clears++
		c.empty()
		c.state.Known = true
	}
	if b.BlockTokens > 0 {
		c.blockTokens = b.BlockTokens
	}
	c.blocks = min(c.blocks+b.Stored-b.Removed, maxBlocks)
	c.state.Evicting = c.state.Evicting || b.Removed > 0
	if c.blocks < 0 {
		c.blocks, c.state.Known = 0, false
	}
	c.state.Tokens = c.blocks * c.blockTokens
}

func (c *count) empty() { c.blocks, c.state.Tokens, c.state.Evicting = 0, 0, false }

// lose notes that the count does not hold any more.
func (c *count) lose() {
	c.state.Gaps++
	c.state.Known = false
}
