package openai

import "bytes"

const (
	maxSkeleton      = 16 << 10 // bytes of a skeleton
	maxSkeletonText  = 256      // bytes of a string in it
	maxSkeletonDepth = 64       // levels followed
	maxEventName     = 64
)

// longEvent follows an event that passes in pieces: its name, and a skeleton of its data.
type longEvent struct {
	name      []byte
	skeleton  skeleton
	isLine    bool // of JSON: all of it is data
	maybeBOM  bool // a byte order mark may follow
	place     linePlace
	field     []byte // of the current line, if it can be one that matters
	dataLines int    // data lines so far
	cr        bool
}

type linePlace uint8

const (
	inField linePlace = iota
	afterColon
	inData
	inName
	inOther
)

func (l *longEvent) reset(first, isLine bool) {
	*l = longEvent{name: l.name[:0], field: l.field[:0], skeleton: skeleton{out: l.skeleton.out[:0]}, maybeBOM: first, isLine: isLine}
}

func (l *longEvent) write(b []byte) {
	if l.isLine {
		l.skeleton.write(b)
		return
	}
	for len(b) > 0 {
		if l.cr && b[0] == '\n' {
			l.cr = false
			b = b[1:]
			continue
		}
		l.cr = false
		i := indexEither(b, '\n', '\r')
		if i < 0 {
			l.text(b)
			return
		}
		l.text(b[:i])
		l.endLine()
		l.cr = b[i] == '\r'
		b = b[i+1:]
	}
}

// text takes bytes of the current line.
func (l *longEvent) text(b []byte) {
	for len(b) > 0 {
		switch l.place {
		case inField:
			if b[0] == ':' {
				l.place = afterColon
			} else if len(l.field) <= len("\ufeffevent") {
				l.field = append(l.field, b[0])
			}
			b = b[1:]
		case afterColon:
			if b[0] == ' ' {
				b = b[1:]
			}
			l.value()
		case inData:
			l.skeleton.write(b)
			return
		case inName:
			l.name = append(l.name, b[:min(len(b), maxEventName+1-len(l.name))]...)
			return
		case inOther:
			return
		}
	}
}

// value begins the value of the current line's field.
func (l *longEvent) value() {
	field := l.field
	if l.maybeBOM {
		field = bytes.TrimPrefix(field, []byte("\ufeff"))
	}
	switch string(field) {
	case "data":
		if l.dataLines > 0 {
			l.skeleton.write([]byte{'\n'})
		}
		l.dataLines++
		l.place = inData
	case "event":
		l.name = l.name[:0]
		l.place = inName
	default:
		l.place = inOther
	}
}

func (l *longEvent) endLine() {
	if l.place == inField || l.place == afterColon {
		l.value()
	}
	l.place, l.field, l.maybeBOM = inField, l.field[:0], false
}

// end ends the event.
func (l *longEvent) end() {
	if len(l.name) > maxEventName {
		l.name = l.name[:0]
	}
}

// skeleton keeps the parts of a JSON text that fit: strings cut short, and of each array the first element only. The
// result is JSON that has every member of the whole outside arrays, so that it can be read like the whole. Bytes are
// taken one after the other, and only the bounded output is stored.
type skeleton struct {
	out      []byte
	full     bool   // the output did not fit and is invalid
	arrays   uint64 // a bit for each level: set for an array
	depth    int
	dropping int // the level of the array whose further elements are left out, 0 = none
	inString bool
	length   int  // of the current string so far, as kept
	escape   int  // bytes of an escape that are still missing
	kept     bool // the current byte or escape is kept

	// each, if set, gets every element of a text that is an array, and the result has none of them.
	each func(element []byte)
	from int // where the elements begin in the output
}

// text returns the skeleton; if it did not fit, a text that is not JSON.
func (k *skeleton) text() []byte {
	if k.full {
		// There was data, but its meaning is unknown.
		return []byte("?")
	}
	return k.out
}

func (k *skeleton) write(b []byte) {
	for i := 0; i < len(b) && !k.full; {
		if k.inString && k.escape == 0 && !k.keeping() {
			// Nothing here is kept: go to the next byte that matters.
			n := indexEither(b[i:], '"', '\\')
			if n < 0 {
				return
			}
			i += n
		}
		if n := k.run(b[i:]); n > 0 {
			k.emitRun(b[i : i+n])
			i += n
			continue
		}
		k.put(b[i])
		i++
	}
}

// run returns how many of the next bytes change nothing but the output: text in a string that is kept, or bytes outside strings that begin, end
// and separate nothing. A message of audio has hundreds of them in a row.
func (k *skeleton) run(b []byte) int {
	if !k.inString {
		for i, c := range b {
			if skeletonBytes[c] {
				return i
			}
		}
		return len(b)
	}
	if k.escape > 0 {
		return 0
	}
	b = b[:min(len(b), max(0, maxSkeletonText-k.length))]
	if n := indexEither(b, '"', '\\'); n >= 0 {
		return n
	}
	return len(b)
}

// skeletonBytes are the bytes for which put does more than emit them.
var skeletonBytes = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true, ',': true}

// emitRun is put of each byte of a run.
func (k *skeleton) emitRun(b []byte) {
	if k.inString {
		k.length += len(b)
	}
	if k.dropping > 0 {
		return
	}
	if room := maxSkeleton - len(k.out); len(b) > room {
		k.full, b = true, b[:room]
	}
	k.out = append(k.out, b...)
}

// keeping reports whether further bytes of the current string are kept.
func (k *skeleton) keeping() bool {
	return k.dropping == 0 && k.length < maxSkeletonText
}

func (k *skeleton) put(c byte) {
	switch {
	case k.inString:
		k.putText(c)
	case c == '"':
		k.inString, k.length = true, 0
		k.emit(c)
	case c == '{' || c == '[':
		k.open(c)
	case c == '}' || c == ']':
		k.close(c)
	case c == ',' && k.depth == 1 && k.listsElements():
	case c == ',' && k.dropping == 0 && k.depth > 0 && k.arrays>>(k.depth-1)&1 != 0:
		k.dropping = k.depth
	default:
		k.emit(c)
	}
}

// putText takes a byte inside a string. It keeps every escape whole.
func (k *skeleton) putText(c byte) {
	if k.escape == 0 {
		k.kept = k.keeping()
	}
	switch {
	case k.escape > 0:
		k.escape--
		if c == 'u' {
			k.escape = 4
		}
	case c == '\\':
		k.escape = 1
	case c == '"':
		k.inString = false
		k.emit(c)
		return
	}
	if k.kept {
		k.emit(c)
		k.length++
	}
}

func (k *skeleton) open(c byte) {
	k.emit(c)
	k.depth++
	if k.dropping > 0 {
		return
	}
	if k.depth > maxSkeletonDepth {
		k.full = true
		return
	}
	k.arrays &^= 1 << (k.depth - 1)
	if c == '[' {
		k.arrays |= 1 << (k.depth - 1)
	}
	if k.depth == 1 {
		k.from = len(k.out)
	}
}

// listsElements reports whether the text is an array of which each element is wanted.
func (k *skeleton) listsElements() bool { return k.each != nil && k.arrays&1 != 0 }

func (k *skeleton) close(c byte) {
	if k.dropping == k.depth {
		k.dropping = 0
	}
	if k.depth > 0 {
		k.depth--
	}
	k.emit(c)
	if k.depth == 1 && k.listsElements() && !k.full {
		k.each(k.out[k.from:])
		k.out = k.out[:k.from]
	}
}

func (k *skeleton) emit(c byte) {
	if k.dropping > 0 {
		return
	}
	if len(k.out) == maxSkeleton {
		k.full = true
		return
	}
	k.out = append(k.out, c)
}
