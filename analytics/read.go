package analytics

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"path/filepath"
)

var (
	// ErrTorn says that a segment ends inside a line: its writer was killed there, or is writing it now.
	ErrTorn = errors.New("line is not complete")
	// ErrCorrupt says that a line is not what was written.
	ErrCorrupt = errors.New("line is corrupt")
)

// ReadDir yields the events of every node that logs under dir (LogConfig.Dir): node by node, oldest first, refusals
// after the rest. A bad line gives an error that wraps ErrTorn or ErrCorrupt, and reading goes on after it.
// A begin that outlived a segment is there once for each; see the package's documentation.
func ReadDir(dir string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		events := filepath.Join(dir, "events")
		nodes, err := os.ReadDir(events)
		if err != nil {
			yield(Event{}, fmt.Errorf("cannot read events: %w", err))
			return
		}
		for _, node := range nodes {
			if node.IsDir() && !readNode(filepath.Join(events, node.Name()), yield) {
				return
			}
		}
	}
}

func readNode(dir string, yield func(Event, error) bool) bool {
	for _, prefix := range []string{billsPrefix, refusedPrefix} {
		found, err := listSegments(dir, prefix)
		if err != nil {
			return yield(Event{}, err)
		}
		for _, s := range found {
			for e, err := range ReadSegment(segmentPath(dir, prefix, s.number)) {
				if errors.Is(err, os.ErrNotExist) {
					break // dropped since it was listed
				}
				if !yield(e, err) {
					return false
				}
			}
		}
	}
	return true
}

// ReadSegment yields the events of one segment in the order they were appended. A bad line gives an error that wraps
// ErrTorn or ErrCorrupt, and reading goes on after it; any other error ends it.
func ReadSegment(path string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(Event{}, fmt.Errorf("cannot read events: %w", err))
			return
		}
		defer file.Close()
		lines := bufio.NewReaderSize(file, 64<<10)
		for number := 1; ; number++ {
			line, err := lines.ReadBytes('\n')
			switch {
			case errors.Is(err, io.EOF) && len(line) == 0:
				return
			case errors.Is(err, io.EOF):
				yield(Event{}, fmt.Errorf("%s:%d: %w", path, number, ErrTorn))
				return
			case err != nil:
				yield(Event{}, fmt.Errorf("cannot read events: %w", err))
				return
			}
			e, err := parseLine(line[:len(line)-1])
			if err != nil {
				err = fmt.Errorf("%s:%d: %w", path, number, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func parseLine(line []byte) (Event, error) {
	if len(line) <= crcDigits || line[crcDigits] != ' ' {
		return Event{}, fmt.Errorf("no checksum: %w", ErrCorrupt)
	}
	body := line[crcDigits+1:]
	var written [crcDigits / 2]byte
	if _, err := hex.Decode(written[:], line[:crcDigits]); err != nil {
		return Event{}, fmt.Errorf("checksum %q: %w", line[:crcDigits], ErrCorrupt)
	}
	sum := crc32.Checksum(body, castagnoli)
	if got := uint32(written[0])<<24 | uint32(written[1])<<16 | uint32(written[2])<<8 | uint32(written[3]); got != sum {
		return Event{}, fmt.Errorf("checksum is %08x, that of the line is %08x: %w", got, sum, ErrCorrupt)
	}
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return e, nil
}
