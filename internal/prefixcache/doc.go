// Package prefixcache models the prefix cache of an inference engine (vLLM's automatic prefix caching), without time, tokens' meaning or
// transport: it says how many tokens of a prompt are cached when a request begins, and what it costs others when the cache is full.
//
// A prompt is split into blocks of a fixed number of tokens. A block is identified by a hash of its tokens and of all before them
// ([Config.Chain]). Only full blocks are stored, and a prompt is never cached as a whole, since its last token has to be computed.
// The blocks that a running request uses are never evicted; of the others, the least recently used goes first, and of one chain
// the last block, so that what is cached is always closed under prefixes. If all blocks are in use, what does not fit is not stored.
//
// [Prefill] models the time until the first token, which is what a cached prefix saves.
//
// Nothing here is safe for concurrent use.
package prefixcache
