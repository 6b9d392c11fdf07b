package openai

import "bytes"

// lineCutter finds the ends of events, which are blank lines. Lines end in LF, CR or CRLF, and may come in pieces.
type lineCutter struct {
	byLine bool // an event is a line of JSON, which ends in LF
	open   bool // the current line has bytes
	cr     bool // the last byte was a CR: an LF now belongs to it
}

// cut returns how much of p belongs to the current event, and whether the event ends there. An LF after a last CR is
// left over.
func (l *lineCutter) cut(p []byte) (n int, done bool) {
	if l.byLine {
		return cutLine(p)
	}
	for n < len(p) {
		if l.cr && p[n] == '\n' {
			l.cr = false
			n++
			continue
		}
		i := indexEither(p[n:], '\n', '\r')
		if i < 0 {
			l.open, l.cr = true, false
			return len(p), false
		}
		blank := i == 0 && !l.open
		n += i + 1
		l.open, l.cr = false, p[n-1] == '\r'
		if blank {
			return n, true
		}
	}
	return n, false
}

// indexEither returns the place of the first x or y in b, or -1. It searches window by window, so that a byte that is
// far away does not make each of many calls search far.
func indexEither(b []byte, x, y byte) int {
	const window = 1 << 10
	for at := 0; at < len(b); at += window {
		part := b[at:min(at+window, len(b))]
		i := bytes.IndexByte(part, x)
		if i >= 0 {
			part = part[:i]
		}
		if j := bytes.IndexByte(part, y); j >= 0 {
			i = j
		}
		if i >= 0 {
			return at + i
		}
	}
	return -1
}

// nextLine splits off the first line, without its end. A CRLF leaves an empty line, which has no field.
func nextLine(b []byte) (line, rest []byte) {
	i := indexEither(b, '\n', '\r')
	if i < 0 {
		return b, nil
	}
	return b[:i], b[i+1:]
}

// splitField splits a line at its first colon; one space after it does not count.
func splitField(line []byte) (field, value []byte) {
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		return line, nil
	}
	field, value = line[:i], line[i+1:]
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return field, value
}

// output gathers the result of one Feed: a part of the input as long as that suffices, else a copy.
type output struct {
	p        []byte // the input
	from, to int    // the part of it
	buf      []byte
	copied   bool
}

func (d *output) reset(p []byte) {
	*d = output{p: p, buf: d.buf[:0]}
}

// pass delivers p[from:to].
func (d *output) pass(from, to int) {
	switch {
	case d.copied:
		d.buf = append(d.buf, d.p[from:to]...)
	case d.from == d.to:
		d.from, d.to = from, to
	case d.to == from:
		d.to = to
	default:
		d.add(d.p[from:to])
	}
}

// add delivers bytes from elsewhere.
func (d *output) add(b []byte) {
	if len(b) == 0 {
		return
	}
	if !d.copied {
		d.buf = append(d.buf, d.p[d.from:d.to]...)
		d.copied = true
	}
	d.buf = append(d.buf, b...)
}

// take returns the output and drops the reference to the input.
func (d *output) take() []byte {
	b := d.p[d.from:d.to]
	if d.copied {
		b = d.buf
	}
	d.p = nil
	return b
}
