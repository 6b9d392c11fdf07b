package openai

import (
	"bytes"

	"colonnade/internal/ascii"
)

// The words that begin the comments which an entry writes into a stream of queue events.
const (
	QueueComment     = "queue"
	HeartbeatComment = "heartbeat"
)

const byteOrderMark = "\ufeff"

// isNodeComment reports whether a line is a comment that a client could take for an entry's.
func isNodeComment(line []byte) bool {
	if len(line) == 0 || line[0] != ':' {
		return false
	}
	word := bytes.TrimLeft(line[1:], " \t")
	n := 0
	for n < len(word) && ascii.IsAlphanumeric(word[n]) {
		n++
	}
	return ascii.EqualFold(word[:n], QueueComment) || ascii.EqualFold(word[:n], HeartbeatComment)
}

// withoutNodeComments returns an event in which the comments that look like an entry's are empty: they still keep the
// connection alive. first means that the event is the first of its stream.
func withoutNodeComments(event []byte, first bool) []byte {
	out := make([]byte, 0, len(event))
	if first && bytes.HasPrefix(event, []byte(byteOrderMark)) {
		out, event = append(out, byteOrderMark...), event[len(byteOrderMark):]
	}
	for len(event) > 0 {
		line, rest := nextLine(event)
		end := event[len(line) : len(event)-len(rest)]
		if isNodeComment(line) {
			line = line[:1]
		}
		out = append(append(out, line...), end...)
		event = rest
	}
	return out
}

// commentFilter empties all comments of an event that passes in pieces. Of a line that is not held, it is not known in
// time whether it looks like an entry's comment.
type commentFilter struct {
	off       bool   // there are no comments
	mark      string // what may follow of a byte order mark
	inComment bool
	inLine    bool // that is not a comment
}

func newCommentFilter(first bool) commentFilter {
	if first {
		return commentFilter{mark: byteOrderMark}
	}
	return commentFilter{}
}

// pass calls out with each part of b that is delivered.
func (f *commentFilter) pass(b []byte, out func(from, to int)) {
	if f.off {
		out(0, len(b))
		return
	}
	from := 0
	for i := f.passMark(b); i < len(b); {
		if f.inComment || f.inLine {
			end := len(b)
			if n := indexEither(b[i:], '\n', '\r'); n >= 0 {
				end = i + n
			}
			if f.inComment {
				from = end
			}
			if i = end; i == len(b) {
				break
			}
			f.inComment, f.inLine = false, false
		}
		switch b[i] {
		case '\n', '\r':
			i++
		case ':':
			i++
			out(from, i)
			from, f.inComment = i, true
		default:
			f.inLine = true
		}
	}
	if from < len(b) {
		out(from, len(b))
	}
}

// passMark returns the length of what b has of a byte order mark, after which a line begins.
func (f *commentFilter) passMark(b []byte) (n int) {
	for n < len(b) && f.mark != "" {
		if b[n] != f.mark[0] {
			f.inLine = len(f.mark) < len(byteOrderMark)
			f.mark = ""
			break
		}
		f.mark = f.mark[1:]
		n++
	}
	return n
}
