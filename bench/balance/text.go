package balance

import (
	"encoding/binary"

	"colonnade/balance"
)

// tokenBytes is how many bytes of text a token has in the mean.
const tokenBytes = 4

// text is the text of prompts, so far as the product looks at it: for each block of tokens some bytes that stand for it, 3 to 5 for each
// token.
type text struct {
	chain  balance.Chain
	buffer []byte
}

// blocks returns the product's chain of a prompt that has these blocks of tokens, and so many bytes of it.
func (t *text) blocks(tokens []uint64, each int) (blocks []uint64, bytes int) {
	t.chain.Reset("")
	for more, i := true, 0; i < len(tokens); i++ {
		t.buffer = appendText(t.buffer[:0], tokens[i], each)
		if bytes += len(t.buffer); more {
			more = t.chain.Write(t.buffer)
		}
	}
	return t.chain.Blocks(), bytes
}

// appendText appends the text of a block of so many tokens.
func appendText(text []byte, block uint64, tokens int) []byte {
	end := len(text) + tokens*(tokenBytes-1+int(block%3))
	for word := block; len(text) < end; word = word*6364136223846793005 + 1442695040888963407 {
		text = binary.LittleEndian.AppendUint64(text, word)
	}
	return text
}

// write gives all requests their prompts as the product sees them.
func (t *Traffic) write() {
	var text text
	for i := range t.Requests {
		r := &t.Requests[i]
		blocks, bytes := text.blocks(r.Chain, t.BlockTokens)
		r.Balance.Blocks, r.Balance.Input = blocks, bytes+(r.Input-len(r.Chain)*t.BlockTokens)*tokenBytes
	}
}
