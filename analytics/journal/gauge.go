package journal

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// Gauge measures how far a reader is behind, without reading what full segments hold. Not safe for concurrent use.
type Gauge struct {
	directory directory
	counted   [3]Position    // how far the newest segment of each kind was counted
	full      [3]map[int]int // final events by number, of full segments that the file of counts lacks: those of an older version
}

// Behind is what a reader has not passed, but for segments that cannot be read, of which it reports itself.
type Behind struct {
	Events uint64 // final events that exist
	Missed uint64 // final events that were dropped before the reader passed them, since it began
	Bytes  int64  // on disk, of all lines
}

// NewGauge returns a gauge of the events of a node under dir (Config.Dir).
func NewGauge(dir, node string) *Gauge {
	return &Gauge{directory: directory{dir: nodeDir(dir, node)}}
}

// Behind returns what a reader has not passed that is at a cursor.
func (g *Gauge) Behind(at Cursor) (Behind, error) {
	if err := g.directory.look(); err != nil {
		return Behind{}, err
	}
	b := Behind{Missed: at.Missed()}
	for kind, p := range at.positions() {
		b.Missed += g.directory.gone(kind, *p, g.directory.highest+1)
		for _, number := range g.directory.segments[kind] {
			if number < p.Segment {
				continue
			}
			g.add(&b, kind, number, *p)
		}
	}
	return b, nil
}

// add adds what of a segment stands behind p. Nothing of it is counted if it cannot be read; one that does not exist is missing at the next look.
func (g *Gauge) add(b *Behind, kind, number int, p Position) {
	info, err := os.Stat(g.path(kind, number))
	if err != nil {
		return
	}
	finals, offset, known := 0, info.Size(), false
	if finals, known = g.directory.counts[kind][number]; !known {
		finals, known = g.full[kind][number]
	}
	if !known {
		if finals, offset, err = g.count(kind, number, p); err != nil {
			return
		}
		g.keep(kind, number, finals)
	}
	if number == p.Segment {
		finals -= p.Finals
		offset -= p.Offset
	}
	b.Events += uint64(max(0, finals))
	b.Bytes += max(0, offset)
}

// keep keeps the count of a segment, unless it is the newest of its kind, which grows.
func (g *Gauge) keep(kind, number, finals int) {
	if g.directory.next(kind, Position{Segment: number}) == 0 {
		return
	}
	if g.full[kind] == nil {
		g.full[kind] = map[int]int{}
	}
	g.full[kind][number] = finals
}

func (g *Gauge) path(kind, number int) string {
	return segmentPath(g.directory.dir, streamPrefixes()[kind], number)
}

// count counts the final events of a segment, from where the last count of it ended or the reader is.
func (g *Gauge) count(kind, number int, at Position) (finals int, end int64, err error) {
	from := g.counted[kind]
	if from.Segment != number || at.Segment == number && at.Offset > from.Offset {
		from = Position{Segment: number}
		if at.Segment == number {
			from = at
		}
	}
	file, err := os.Open(g.path(kind, number))
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	if _, err := file.Seek(from.Offset, io.SeekStart); err != nil {
		return 0, 0, err
	}
	lines := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 && line[0] == 0 || errors.Is(err, io.EOF) {
			break // a line that is not complete comes next time
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, 0, err
		}
		from.Offset += int64(len(line))
		if isFinal(line) {
			from.Finals++
		}
	}
	g.counted[kind] = from
	return from.Finals, from.Offset, nil
}
