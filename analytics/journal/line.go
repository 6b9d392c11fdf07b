package journal

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"colonnade/analytics"
)

var (
	// ErrTorn reports a segment that ends inside a line: its writer was killed there, or is writing it now.
	ErrTorn = errors.New("line is not complete")
	// ErrCorrupt reports a line that differs from what was written.
	ErrCorrupt = errors.New("line is corrupt")
)

const (
	crcDigits  = 8
	usualLine  = 768 // bytes that suffice for most lines
	usualBegin = 384 // the same for begins, which are kept until their ends
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendLine appends the event as a line of a segment.
func appendLine(dst []byte, e *analytics.Event) []byte {
	start := len(dst)
	dst = append(dst, "00000000 "...)
	dst = appendEvent(dst, e)
	var sum [crcDigits / 2]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(dst[start+crcDigits+1:], castagnoli))
	hex.Encode(dst[start:], sum[:])
	return append(dst, '\n')
}

// checkLine returns the JSON of a line without its newline, in the memory of the line. Its errors wrap ErrCorrupt.
func checkLine(line []byte) ([]byte, error) {
	if len(line) <= crcDigits || line[crcDigits] != ' ' {
		return nil, fmt.Errorf("no checksum: %w", ErrCorrupt)
	}
	body := line[crcDigits+1:]
	var written [crcDigits / 2]byte
	if _, err := hex.Decode(written[:], line[:crcDigits]); err != nil {
		return nil, fmt.Errorf("checksum %q: %w", line[:crcDigits], ErrCorrupt)
	}
	sum := crc32.Checksum(body, castagnoli)
	if want := binary.BigEndian.Uint32(written[:]); want != sum {
		return nil, fmt.Errorf("checksum is %08x, that of the line is %08x: %w", want, sum, ErrCorrupt)
	}
	return body, nil
}

// parseEvent parses the JSON of a line. Its errors wrap ErrCorrupt.
func parseEvent(body []byte) (analytics.Event, error) {
	var e analytics.Event
	if err := json.Unmarshal(body, &e); err != nil {
		return analytics.Event{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return e, nil
}
