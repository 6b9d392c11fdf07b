package openai

// ModelRenamer writes another name for the model into an answer, in place of the one that the engine gives: as the member model of an object, or
// of its members message and response. All other bytes stay as they are. It keeps nothing back, so the answer may come in any pieces. A name
// that the engine does not give is not added. A ModelRenamer is not safe for concurrent use.
type ModelRenamer struct {
	name    string // as JSON
	framing Framing

	// Of a line.
	field  int  // how many bytes of dataField it has begun with; fieldOther = it has another field
	mark   int  // how many bytes of a byte order mark have begun the answer
	filled bool // it has bytes
	cr     bool // it follows a CR
	later  bool // it is not the first

	// Of a value.
	done       bool // nothing more is renamed
	depth      int
	inside     bool // at depth 2, in a member of renamedParents
	afterColon bool // the next string is no key; only at depth 1, and at depth 2 inside
	member     memberKind
	text       stringKind
	escaped    bool // a backslash was the last byte
	key        []byte
}

const (
	dataField  = "data:"
	fieldOther = -1
	// maxMember is longer than the names of the members that matter.
	maxMember = 16
)

// memberKind is what the name of a member means.
type memberKind uint8

const (
	memberOther  memberKind = iota
	memberModel             // its value is the name of a model
	memberParent            // its value is an object that may have one
)

// stringKind is the string in which the next byte is.
type stringKind uint8

const (
	noString    stringKind = iota
	someString             // passes
	keyString              // passes, and is the name of a member
	modelString            // has been replaced
)

// NewModelRenamer returns a renamer at the beginning of an answer, which without a framing is one value.
func NewModelRenamer(name string, f Framing) *ModelRenamer {
	return &ModelRenamer{name: string(appendString(nil, name)), framing: f}
}

// Append appends the next bytes of the answer with the name in place.
func (r *ModelRenamer) Append(dst, p []byte) []byte {
	if r.framing == NoFraming {
		return r.value(dst, p)
	}
	other := byte('\n') // white space beside \n ends no line of JSON
	if r.framing == EventStream {
		other = '\r'
	}
	for {
		i := indexEither(p, '\n', other)
		if i < 0 {
			return r.line(dst, p)
		}
		dst = append(r.line(dst, p[:i]), p[i])
		r.endLine(p[i])
		p = p[i+1:]
	}
}

// line appends a piece of a line.
func (r *ModelRenamer) line(dst, p []byte) []byte {
	if len(p) == 0 {
		return dst
	}
	r.filled, r.cr = true, false
	if r.framing == JSONLines {
		return r.value(dst, p)
	}
	n := 0
	for ; n < len(p) && r.field >= 0 && r.field < len(dataField); n++ {
		r.takeField(p[n])
	}
	dst, p = append(dst, p[:n]...), p[n:]
	if r.field == fieldOther {
		return append(dst, p...)
	}
	return r.value(dst, p)
}

// takeField takes the next byte of a line of which it is not known yet whether it is data.
func (r *ModelRenamer) takeField(c byte) {
	switch {
	case !r.later && r.field == 0 && r.mark < len(byteOrderMark) && c == byteOrderMark[r.mark]:
		r.mark++
	case c == dataField[r.field] && (r.mark == 0 || r.mark == len(byteOrderMark)):
		r.field++
	default:
		r.field = fieldOther
	}
}

// endLine notes the end of a line. An event ends with an empty one. A string goes on over no line: such a value is no JSON, and ends.
func (r *ModelRenamer) endLine(end byte) {
	if r.cr && end == '\n' && !r.filled { // the second half of a CRLF
		r.cr = false
		return
	}
	if r.framing == JSONLines || !r.filled {
		r.restart()
	} else if r.text != noString {
		r.text, r.done = noString, true
	}
	r.field, r.filled, r.cr, r.later = 0, false, end == '\r', true
}

// restart begins a value.
func (r *ModelRenamer) restart() {
	r.done, r.depth, r.inside, r.afterColon, r.member, r.text, r.escaped = false, 0, false, false, memberOther, noString, false
}

// value appends a piece of a value.
func (r *ModelRenamer) value(dst, p []byte) []byte {
	for len(p) > 0 && !r.done {
		var n int
		if r.text == noString {
			n = r.structure(p)
			dst = append(dst, p[:n]...)
			if r.text == modelString {
				dst = append(dst[:len(dst)-1], r.name...) // which has the quote
			}
		} else {
			replaced := r.text == modelString
			if n = r.string(p); !replaced {
				dst = append(dst, p[:n]...)
			}
		}
		p = p[n:]
	}
	return append(dst, p...)
}

// structure takes bytes up to the beginning of a string, which is the last of them. It returns how many they are.
func (r *ModelRenamer) structure(p []byte) int {
	for i, c := range p {
		switch c {
		case '"':
			r.text = r.stringHere()
			r.key = r.key[:0]
			return i + 1
		case '{', '[':
			r.open(c)
		case '}', ']':
			r.close()
		case ',', ':':
			if r.depth == 1 || r.inside && r.depth == 2 {
				r.afterColon = c == ':'
			}
		}
		if r.done {
			return i + 1
		}
	}
	return len(p)
}

// stringHere returns what a string that begins here is.
func (r *ModelRenamer) stringHere() stringKind {
	switch {
	case r.depth != 1 && !(r.inside && r.depth == 2):
		return someString
	case !r.afterColon:
		return keyString
	case r.member == memberModel:
		return modelString
	}
	return someString
}

func (r *ModelRenamer) open(c byte) {
	switch r.depth {
	case 0:
		r.done = c == '['
	case 1:
		r.inside = c == '{' && r.afterColon && r.member == memberParent
		r.afterColon = r.afterColon && !r.inside
	}
	r.depth++
}

func (r *ModelRenamer) close() {
	switch r.depth--; {
	case r.depth <= 0:
		r.done = true // also of a value that closes too often
	case r.depth == 1:
		r.inside, r.member, r.afterColon = false, memberOther, true
	}
}

// string takes bytes of a string up to its end, and returns how many they are.
func (r *ModelRenamer) string(p []byte) int {
	if r.escaped {
		r.escaped = false
		r.noteKey(p[:1])
		return 1
	}
	i := indexEither(p, '"', '\\')
	if i < 0 {
		r.noteKey(p)
		return len(p)
	}
	r.noteKey(p[:i])
	if r.escaped = p[i] == '\\'; r.escaped {
		r.noteKey(p[i : i+1])
		return i + 1
	}
	switch r.text {
	case keyString:
		r.member = memberNamed(r.key, r.depth)
	case modelString:
		r.done = true
	}
	r.text = noString
	return i + 1
}

// noteKey adds bytes to the name of a member. No name that matters has an escape.
func (r *ModelRenamer) noteKey(p []byte) {
	if r.text == keyString {
		r.key = append(r.key, p[:min(len(p), maxMember-len(r.key))]...)
	}
}

// memberNamed returns what a member at a depth is.
func memberNamed(key []byte, depth int) memberKind {
	switch string(key) {
	case "model":
		return memberModel
	case "message", "response":
		if depth == 1 {
			return memberParent
		}
	}
	return memberOther
}
