package journal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// allPrefixes are those of all segments, begins last.
var allPrefixes = append(slices.Clone(finalPrefixes), beginsPrefix)

// Position returns how far the events of the reader's one node were read, as text: the names of segments, and the byte in each.
func (r *Reader) Position() string {
	var parts []string
	for _, prefix := range allPrefixes {
		if at, read := r.at[r.keyOf(prefix)]; read {
			parts = append(parts, fmt.Sprintf("%s%d%s@%d", prefix, at.number, segmentSuffix, at.offset))
		}
	}
	return strings.Join(parts, ",")
}

// ContinueFrom moves the reader of one node to what Position has returned. Call it before Lines.
func (r *Reader) ContinueFrom(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, offset, _ := strings.Cut(part, "@")
		name, isSegment := strings.CutSuffix(name, segmentSuffix)
		prefix := strings.TrimRight(name, "0123456789")
		number, err := strconv.Atoi(name[len(prefix):])
		at, failed := strconv.ParseInt(offset, 10, 64)
		if !isSegment || err != nil || failed != nil || at < 0 || !slices.Contains(allPrefixes, prefix) {
			return fmt.Errorf("%q is no position in the events of a node", text)
		}
		r.at[r.keyOf(prefix)] = position{number, at}
	}
	return nil
}

// keyOf returns the key of the log of the reader's one node with a prefix.
func (r *Reader) keyOf(prefix string) string {
	return nodeLog{dir: nodeDir(r.config.Dir, r.config.Node), prefix: prefix}.key()
}
