package hop

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxPosition is the highest position that ParseProgress accepts.
const maxPosition = 1_000_000_000

// Progress is the position of a request that waits in a colo. A colo server sends it in the header x-colonnade-progress of interim
// responses (102 Processing), as `position=3;expected_ms=1200`, to a node whose hop token has asked for it.
type Progress struct {
	Position int           // from 1, which is served next
	Expected time.Duration // wait from now on, if it is known
	Known    bool
}

// String returns the header's value.
func (p Progress) String() string { return string(p.Append(nil, ';')) }

// Append appends the progress to b as name=value pairs that separator separates.
func (p Progress) Append(b []byte, separator byte) []byte {
	b = append(b, "position="...)
	b = strconv.AppendInt(b, int64(p.Position), 10)
	if p.Known {
		b = append(b, separator)
		b = append(b, "expected_ms="...)
		b = strconv.AppendInt(b, p.Expected.Milliseconds(), 10)
	}
	return b
}

// ParseProgress parses the header's value. It ignores unknown names, as ParseVerdict does.
func ParseProgress(s string) (Progress, error) {
	var p Progress
	for field := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(field, "=")
		if name != "position" && name != "expected_ms" {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n > maxPosition {
			return Progress{}, fmt.Errorf("cannot parse progress %.40q: %s is not from 0 to %d", s, name, maxPosition)
		}
		if name == "position" {
			p.Position = int(n)
		} else {
			p.Expected, p.Known = time.Duration(n)*time.Millisecond, true
		}
	}
	if p.Position < 1 {
		return Progress{}, fmt.Errorf("cannot parse progress %.40q: it has no position of 1 or more", s)
	}
	return p, nil
}
