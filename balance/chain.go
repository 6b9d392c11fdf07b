package balance

import "github.com/cespare/xxhash/v2"

const (
	leastBlock = 256 // bytes
	blockShare = 16  // a block is at least one part in so many of what comes before it
	// MaxBlocks is the most blocks of a prompt: a little over 1 MiB.
	MaxBlocks = 112
)

// blockEnds has the offset in the prompt at which each block ends. It depends on nothing else, so that prompts with the same beginning
// have the same blocks; and as blocks grow, few of them stand for a long prompt, with an error in proportion to its length.
var blockEnds = func() (ends [MaxBlocks]int) {
	end := 0
	for i := range ends {
		end += max(leastBlock, end/blockShare)
		ends[i] = end
	}
	return ends
}()

// Chain hashes the beginning of a prompt, block by block. The zero value is not ready: see Reset.
type Chain struct {
	digest xxhash.Digest
	size   int
	hashes []uint64
}

// Reset begins a prompt for an owner: for a model, since its blocks are in no other model's cache.
func (c *Chain) Reset(owner string) {
	c.digest.Reset()
	_, _ = c.digest.WriteString(owner)
	_, _ = c.digest.Write([]byte{0})
	c.size, c.hashes = 0, nil
}

// Write adds text to the prompt. It reports whether more text can make a difference.
func (c *Chain) Write(text []byte) bool {
	for len(text) > 0 && len(c.hashes) < MaxBlocks {
		n := min(len(text), blockEnds[len(c.hashes)]-c.size)
		_, _ = c.digest.Write(text[:n])
		text, c.size = text[n:], c.size+n
		if c.size == blockEnds[len(c.hashes)] {
			if c.hashes == nil {
				c.hashes = make([]uint64, 0, 16)
			}
			c.hashes = append(c.hashes, c.digest.Sum64())
		}
	}
	return len(c.hashes) < MaxBlocks
}

// Sum returns the hash of all that was written.
func (c *Chain) Sum() uint64 { return c.digest.Sum64() }

// Blocks returns the hashes of the whole blocks: each stands for its block and all before it.
func (c *Chain) Blocks() []uint64 { return c.hashes }

// Size returns how many bytes of the prompt were written, up to the end of the last block.
func (c *Chain) Size() int { return c.size }

// bytesOf returns how many bytes of a prompt so many blocks have.
func bytesOf(blocks int) int {
	if blocks == 0 {
		return 0
	}
	return blockEnds[min(blocks, MaxBlocks)-1]
}
