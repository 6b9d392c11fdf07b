package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"colonnade/analytics"
)

var (
	// ErrTorn reports a segment that ends inside a line: its writer was killed there, or is writing it now.
	ErrTorn = errors.New("line is not complete")
	// ErrCorrupt reports a line that differs from what was written.
	ErrCorrupt = errors.New("line is corrupt")
)

const crcDigits = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lineEncoder encodes events as lines of a segment. Not safe for concurrent use.
type lineEncoder struct {
	event analytics.Event // a copy, so that an event does not escape to the heap
	line  bytes.Buffer
	json  *json.Encoder // into line
}

func newLineEncoder() *lineEncoder {
	l := &lineEncoder{}
	l.json = json.NewEncoder(&l.line)
	return l
}

// encode returns the event as a line, which is valid until the next call. A cost or a time that JSON cannot express (an
// engine may report any number of seconds) is left out, so that the event is kept.
func (l *lineEncoder) encode(e *analytics.Event) []byte {
	l.event = *e
	l.event.Cost, l.event.AudioSeconds = finite(e.Cost), finite(e.AudioSeconds)
	l.line.Reset()
	l.line.WriteString("00000000 ")
	_ = l.json.Encode(&l.event) // cannot fail: all numbers are finite, and no clock is past the year 9999
	line := l.line.Bytes()
	var sum [crcDigits / 2]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(line[crcDigits+1:len(line)-1], castagnoli))
	hex.Encode(line, sum[:])
	return line
}

func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// parseLine parses a line without its newline. Its errors wrap ErrCorrupt.
func parseLine(line []byte) (analytics.Event, error) {
	if len(line) <= crcDigits || line[crcDigits] != ' ' {
		return analytics.Event{}, fmt.Errorf("no checksum: %w", ErrCorrupt)
	}
	body := line[crcDigits+1:]
	var written [crcDigits / 2]byte
	if _, err := hex.Decode(written[:], line[:crcDigits]); err != nil {
		return analytics.Event{}, fmt.Errorf("checksum %q: %w", line[:crcDigits], ErrCorrupt)
	}
	sum := crc32.Checksum(body, castagnoli)
	if want := binary.BigEndian.Uint32(written[:]); want != sum {
		return analytics.Event{}, fmt.Errorf("checksum is %08x, that of the line is %08x: %w", want, sum, ErrCorrupt)
	}
	var e analytics.Event
	if err := json.Unmarshal(body, &e); err != nil {
		return analytics.Event{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return e, nil
}
