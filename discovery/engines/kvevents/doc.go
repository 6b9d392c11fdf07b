// Package kvevents reads the events of an engine's KV cache that vLLM and SGLang publish over ZeroMQ (--kv-events-config), and says how many
// tokens of prompts are resident in it.
//
// # Wire format
//
// A message has three frames: the topic, a sequence number of 8 bytes, big endian, from 0 on, and a batch in MessagePack. A batch is a list
// (time, events, rank) or, of newer versions of vLLM, a map (ts, events, data_parallel_rank); so is an event: a list that begins with its name, or a
// map that has it as type. BlockStored has block_hashes and block_size, BlockRemoved has block_hashes, AllBlocksCleared has nothing. Blocks of
// another medium than GPU, and of other groups of layers than the first (group_idx), are not counted. Unknown events and fields are skipped.
//
// # The count
//
// An engine hashes tokens, which the gateway does not see, so blocks are only counted, and no hash is kept: stored less removed. The count holds
// only from a moment at which the cache was empty: the first message of an engine (sequence number 0), or AllBlocksCleared. It is unknown from the
// beginning, from a message that is lost or not understood, and from a removal of more than is there, until the next such moment. While
// nothing was removed, the engine had no need to, and the count says nothing of the cache's size ([State.Evicting]).
//
// # Bounds
//
// A message may have 4 MiB and 8 frames; a longer one ends the connection. No more than 8 MiB a second are read: a publisher that writes more
// drops messages, as ZeroMQ does for slow subscribers. Of an event nothing is kept but its counts. A connection that fails is tried again, ever more
// rarely, and at least every few seconds: an engine that has begun anew must be followed before its first request, or the count is not known.
//
// The client speaks ZMTP 3.0 (rfc.zeromq.org/spec/23) with NULL security, which every libzmq since 4.0 accepts.
package kvevents
