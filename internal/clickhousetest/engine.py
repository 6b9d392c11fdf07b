"""Statements from stdin to the engine of ClickHouse that chdb embeds, one after the other, and answers to stdout.

A statement is its length in four bytes, and its text. An answer is a byte, 0 for good, its length, and its bytes.
"""
import os
import struct
import sys

from chdb import session

answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what the engine itself prints
db = session.Session(sys.argv[1])
while len(length := sys.stdin.buffer.read(4)) == 4:
    statement = sys.stdin.buffer.read(struct.unpack("<I", length)[0]).decode()
    try:
        status, answer = 0, db.query(statement, "Native").bytes() or b""
    except Exception as e:
        status, answer = 1, str(e).encode()
    answers.write(struct.pack("<BI", status, len(answer)) + answer)
    answers.flush()
