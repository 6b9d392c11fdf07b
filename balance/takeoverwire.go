package balance

import (
	"encoding/binary"
	"time"
)

// EncodeUses returns the binary form of uses, the newest first. Of each use it has
//
//	uvarint   twice the milliseconds from the use before, or from now on, back to it; plus one if its depth is that of the use before plus one
//	1 byte    its depth, unless that is so
//	8 bytes   its hash, little endian
//
// which are nine bytes as a rule. A part from the beginning is valid, too.
func EncodeUses(now Instant, uses []Use) []byte {
	text := make([]byte, 0, 9*len(uses)+8)
	age, depth := int64(0), -1
	for _, u := range uses {
		since := max(age, (now - u.Used).Milliseconds())
		if u.Depth == depth+1 {
			text = binary.AppendUvarint(text, uint64(since-age)<<1|1)
		} else {
			text = append(binary.AppendUvarint(text, uint64(since-age)<<1), byte(u.Depth))
		}
		text = binary.LittleEndian.AppendUint64(text, u.Hash)
		age, depth = since, u.Depth
	}
	return text
}

// DecodeUses returns the uses of a binary form that was made age ago, up to the first that cannot be read, or cannot be true.
func DecodeUses(now Instant, text []byte, age time.Duration) (uses []Use) {
	uses = make([]Use, 0, len(text)/9)
	at, depth := now-age, -1
	for {
		since, n := binary.Uvarint(text)
		if n <= 0 || since>>1 > uint64(maxKnownAge.Milliseconds()) {
			return uses
		}
		at -= time.Duration(since>>1) * time.Millisecond
		text = text[n:]
		if since&1 == 1 {
			depth++
		} else {
			if len(text) == 0 {
				return uses
			}
			depth, text = int(text[0]), text[1:]
		}
		if len(text) < 8 || depth >= MaxBlocks || now-at > 2*maxKnownAge {
			return uses
		}
		uses = append(uses, Use{Hash: binary.LittleEndian.Uint64(text), Depth: depth, Used: at})
		text = text[8:]
	}
}
