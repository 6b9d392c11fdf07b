package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	countsName = "counts"
	// mostCounts bounds the file of counts: beyond it, the older half is forgotten. A follower that is farther behind does not learn how many
	// events it has missed.
	mostCounts = 4000
)

// count says how many final events a full segment has, or had when it was dropped. The file of counts has one in each line, as the name of
// the segment without its suffix, a space, and the number of events.
type count struct {
	prefix  string
	segment int
	finals  int
}

func countsPath(dir string) string { return filepath.Join(dir, countsName) }

// readCounts returns the counts of a node's segments, oldest first. Lines that a full disk has torn are left out.
func readCounts(dir string) ([]count, error) {
	text, err := os.ReadFile(countsPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read counts of segments: %w", err)
	}
	var counts []count
	for line := range bytes.Lines(text) {
		name, finals, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		prefix, segment, ok := splitName(name)
		n, err := strconv.Atoi(finals)
		if ok && err == nil && line[len(line)-1] == '\n' {
			counts = append(counts, count{prefix, segment, n})
		}
	}
	return counts, nil
}

// record writes the counts of all full segments that are not in the file of counts yet. The kernel has them then: like events, they
// survive the process, and need no sync.
func (s *segments) record() error {
	var lines []byte
	var recorded []*segment
	for i := range s.older {
		if o := &s.older[i]; !o.recorded && o.finals != notCounted {
			lines = count{s.prefix, o.number, o.finals}.append(lines)
			recorded = append(recorded, o)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	file, err := os.OpenFile(countsPath(s.dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err == nil {
		_, err = file.Write(lines)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot record counts of segments: %w", err)
	}
	for _, o := range recorded {
		o.recorded = true
	}
	return nil
}

func (c count) append(dst []byte) []byte {
	return fmt.Appendf(dst, "%s%d %d\n", c.prefix, c.segment, c.finals)
}

// openCounts notes in the segments of an earlier run what the file of counts has about them, and shortens a file that has become
// long.
func openCounts(dir string, of ...*segments) error {
	counts, err := readCounts(dir)
	if err != nil {
		return err
	}
	known := map[string]map[int]int{}
	for _, c := range counts {
		if known[c.prefix] == nil {
			known[c.prefix] = map[int]int{}
		}
		known[c.prefix][c.segment] = c.finals
	}
	for _, s := range of {
		for i := range s.older {
			if finals, ok := known[s.prefix][s.older[i].number]; ok {
				s.older[i].finals, s.older[i].recorded = finals, true
			}
		}
	}
	return shortenCounts(dir, counts)
}

func shortenCounts(dir string, counts []count) error {
	if len(counts) <= mostCounts {
		return nil
	}
	var text []byte
	for _, c := range counts[len(counts)-mostCounts/2:] {
		text = c.append(text)
	}
	temporary := countsPath(dir) + unfinishedSuffix
	if err := os.WriteFile(temporary, text, 0o640); err != nil {
		return fmt.Errorf("cannot shorten counts of segments: %w", err)
	}
	return os.Rename(temporary, countsPath(dir))
}
