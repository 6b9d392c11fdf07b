"""Publishes events of a KV cache by libzmq, in the two encodings of vLLM: commands come by stdin, one a line.

map|list store N   stores N blocks of 16 tokens
map|list remove N  removes N blocks
map|list clear     empties the cache
wait               waits for a subscriber
"""
import itertools
import sys
import time

import msgspec
import zmq

socket = zmq.Context.instance().socket(zmq.XPUB)
socket.setsockopt(zmq.HEARTBEAT_IVL, 200)
print(socket.bind_to_random_port("tcp://127.0.0.1"), flush=True)
sequence, blocks = itertools.count(), itertools.count()


def event(kind, **fields):
    """Fields in their order: a list has no names."""
    if encoding == "map":
        return {"type": kind, **fields}
    return [kind, *fields.values()]


for line in sys.stdin:
    encoding, *command = line.split()
    if encoding == "wait":
        while socket.recv()[:1] != b"\x01":
            pass
        continue
    if command[0] == "store":
        n = int(command[1])
        hashes = [next(blocks).to_bytes(32, "big") if encoding == "map" else next(blocks) for _ in range(n)]
        said = event("BlockStored", block_hashes=hashes, parent_block_hash=None, token_ids=list(range(16 * n)), block_size=16, lora_id=None, medium="GPU")
    elif command[0] == "remove":
        said = event("BlockRemoved", block_hashes=[next(blocks) for _ in range(int(command[1]))], medium="GPU")
    else:
        said = event("AllBlocksCleared")
    batch = {"ts": time.time(), "events": [said], "data_parallel_rank": 0} if encoding == "map" else [time.time(), [said], 0]
    socket.send_multipart((b"kv-events", next(sequence).to_bytes(8, "big"), msgspec.msgpack.encode(batch)))
