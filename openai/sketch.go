package openai

import "bytes"

const (
	maxSketch     = 16 << 10 // bytes of a sketch
	maxSketchText = 256      // bytes of a string in it
	maxSketchDeep = 64       // levels that it follows
	maxEventName  = 64
)

// longEvent follows an event that passes in pieces: its name, and a sketch of
// its data.
type longEvent struct {
	name   []byte
	sketch sketch
	mark   bool // a byte order mark may come
	place  linePlace
	field  []byte // the current line's, as far as it can be one that matters
	datas  int    // data lines so far
	cr     bool
}

type linePlace uint8

const (
	inField linePlace = iota
	afterColon
	inData
	inName
	inOther
)

func (l *longEvent) reset(first bool) {
	*l = longEvent{name: l.name[:0], field: l.field[:0], sketch: sketch{out: l.sketch.out[:0]}, mark: first}
}

func (l *longEvent) write(b []byte) {
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
			l.sketch.write(b)
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
	if l.mark {
		field = bytes.TrimPrefix(field, []byte("\ufeff"))
	}
	switch string(field) {
	case "data":
		if l.datas > 0 {
			l.sketch.write([]byte{'\n'})
		}
		l.datas++
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
	l.place, l.field, l.mark = inField, l.field[:0], false
}

// end says that the event is whole.
func (l *longEvent) end() {
	if len(l.name) > maxEventName {
		l.name = l.name[:0]
	}
}

// sketch keeps of JSON what fits: strings cut short, of each array the first
// element only. Of JSON it makes JSON in which every member that the whole has
// outside arrays still stands, so that it can be read like the whole. It takes
// bytes one after the other and needs nothing but its bounded output.
type sketch struct {
	out      []byte
	full     bool   // it did not fit: it says nothing
	arrays   uint64 // a bit for each level: is it an array
	depth    int
	dropping int // the level of the array whose further elements are left out, 0 = none
	inString bool
	length   int  // of the current string so far, as far as it is kept
	escape   int  // bytes of an escape that are still to come
	kept     bool // the current byte or escape is kept
}

// text is the sketch, or nothing if it did not fit.
func (k *sketch) text() []byte {
	if k.full {
		// Data it was, but of unknown meaning.
		return []byte("?")
	}
	return k.out
}

func (k *sketch) write(b []byte) {
	for i := 0; i < len(b) && !k.full; {
		if k.inString && k.escape == 0 && !k.keeping() {
			// Nothing here is kept: go to the next byte that matters.
			n := indexEither(b[i:], '"', '\\')
			if n < 0 {
				return
			}
			i += n
		}
		k.put(b[i])
		i++
	}
}

// keeping says whether bytes of the current string are still kept.
func (k *sketch) keeping() bool {
	return k.dropping == 0 && k.length < maxSketchText
}

func (k *sketch) put(c byte) {
	switch {
	case k.inString:
		k.putText(c)
	case c == '"':
		k.inString, k.length = true, 0
		k.emit(c)
	case c == '{' || c == '[':
		k.open(c)
	case c == '}' || c == ']':
		k.shut(c)
	case c == ',' && k.dropping == 0 && k.depth > 0 && k.arrays>>(k.depth-1)&1 != 0:
		k.dropping = k.depth
	default:
		k.emit(c)
	}
}

// putText takes a byte inside a string. It does not stop keeping inside an escape.
func (k *sketch) putText(c byte) {
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

func (k *sketch) open(c byte) {
	k.emit(c)
	k.depth++
	if k.dropping > 0 {
		return
	}
	if k.depth > maxSketchDeep {
		k.full = true
		return
	}
	k.arrays &^= 1 << (k.depth - 1)
	if c == '[' {
		k.arrays |= 1 << (k.depth - 1)
	}
}

func (k *sketch) shut(c byte) {
	if k.dropping == k.depth {
		k.dropping = 0
	}
	if k.depth > 0 {
		k.depth--
	}
	k.emit(c)
}

func (k *sketch) emit(c byte) {
	if k.dropping > 0 {
		return
	}
	if len(k.out) == maxSketch {
		k.full = true
		return
	}
	k.out = append(k.out, c)
}
