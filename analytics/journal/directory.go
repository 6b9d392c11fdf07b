package journal

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// directory is what is known about the segments of final events of a node, for readers.
type directory struct {
	dir      string
	segments [3][]int       // numbers of those that exist, ascending, in the order of streams
	counts   [3]map[int]int // final events by number, of full segments and of dropped ones
	highest  int            // number of any segment

	countsSize int64 // of the file of counts when it was read
	countsTime time.Time
}

// look lists the segments anew. A directory that does not exist has none.
func (d *directory) look() error {
	file, err := os.Open(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		*d = directory{dir: d.dir}
		return nil
	}
	if err != nil {
		return err
	}
	names, err := file.Readdirnames(-1)
	_ = file.Close()
	if err != nil {
		return err
	}
	for i := range d.segments {
		d.segments[i] = d.segments[i][:0]
	}
	for _, name := range names {
		d.add(name)
	}
	for i := range d.segments {
		slices.Sort(d.segments[i])
	}
	return d.readCounts() // last: the counts of segments that are not listed are there
}

func (d *directory) add(name string) {
	name, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return
	}
	prefix, number, ok := splitName(name)
	if !ok {
		return
	}
	d.highest = max(d.highest, number)
	for i, p := range streamPrefixes() {
		if p == prefix {
			d.segments[i] = append(d.segments[i], number)
		}
	}
}

// splitName splits the name of a segment without its suffix into prefix and number.
func splitName(name string) (prefix string, number int, ok bool) {
	dash := strings.LastIndexByte(name, '-') + 1
	number, err := strconv.Atoi(name[dash:])
	return name[:dash], number, err == nil
}

func (d *directory) readCounts() error {
	info, err := os.Stat(countsPath(d.dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Size() == d.countsSize && info.ModTime().Equal(d.countsTime) {
		return err
	}
	counts, err := readCounts(d.dir)
	if err != nil {
		return err
	}
	for i, prefix := range streamPrefixes() {
		d.counts[i] = map[int]int{}
		for _, c := range counts {
			if c.prefix == prefix {
				d.counts[i][c.segment] = c.finals
				d.highest = max(d.highest, c.segment)
			}
		}
	}
	d.countsSize, d.countsTime = info.Size(), info.ModTime()
	return nil
}

// start returns the position of the oldest event of a kind that exists, or of the next one.
func (d *directory) start(kind int) Position {
	if existing := d.segments[kind]; len(existing) > 0 {
		return Position{Segment: existing[0]}
	}
	return Position{Segment: d.highest} // a segment of another kind; that of the next event has a higher number
}

// catchUp moves a position in a segment that does not exist any more to the next that exists. A position beyond all segments is of an
// earlier directory of that name, and starts over.
func (d *directory) catchUp(kind int, p *Position) {
	if p.Segment > d.highest {
		*p = Position{Missed: p.Missed, Corrupt: p.Corrupt}
	}
	existing := d.segments[kind]
	if i, found := slices.BinarySearch(existing, p.Segment); !found && i < len(existing) {
		d.moveTo(kind, p, existing[i])
	}
}

// next returns the number of the segment behind that of p; 0 if there is none yet.
func (d *directory) next(kind int, p Position) int {
	if i, _ := slices.BinarySearch(d.segments[kind], p.Segment+1); i < len(d.segments[kind]) {
		return d.segments[kind][i]
	}
	return 0
}

// moveTo moves a position to the begin of a later segment, and counts what it misses by that: the rest of its own segment, if that does not
// exist any more, and those in between.
func (d *directory) moveTo(kind int, p *Position, later int) {
	p.Missed += d.gone(kind, *p, later)
	p.Segment, p.Offset, p.Finals = later, 0, 0
}

// gone returns how many final events behind p, in segments before later, do not exist any more.
func (d *directory) gone(kind int, p Position, later int) (events uint64) {
	for number, finals := range d.counts[kind] {
		if number < p.Segment || number >= later {
			continue
		}
		if _, exists := slices.BinarySearch(d.segments[kind], number); exists {
			continue
		}
		if number == p.Segment {
			finals = max(0, finals-p.Finals)
		}
		events += uint64(finals)
	}
	return events
}
