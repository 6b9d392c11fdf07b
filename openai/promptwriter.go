package openai

// promptWriter writes the text of a prompt, the small pieces of it together.
type promptWriter struct {
	write   func(text []byte) (more bool)
	pending []byte
	memory  [256]byte
	done    bool // write has returned false
}

// maxContents is how deep contents are read whose parts have contents themselves. Deeper ones pass as they are written.
const maxContents = 3

func (w *promptWriter) put(text []byte) {
	if w.done || len(text) == 0 {
		return
	}
	if len(w.pending)+len(text) <= len(w.memory) {
		w.pending = append(w.memory[:len(w.pending)], text...)
		return
	}
	if w.flush() {
		w.done = !w.write(text)
	}
}

// mark writes what stands between texts.
func (w *promptWriter) mark(text string) {
	if len(w.pending)+len(text) > len(w.memory) && !w.flush() {
		return
	}
	w.pending = append(w.memory[:len(w.pending)], text...)
}

// flush reports whether there may be more.
func (w *promptWriter) flush() bool {
	if len(w.pending) > 0 && !w.done {
		w.done = !w.write(w.pending)
	}
	w.pending = nil
	return !w.done
}

// messages writes a list of messages, up to so many of the user; negative: all.
func (w *promptWriter) messages(s *scan, most int) {
	for more := s.firstElement(); more; more = s.nextElement() {
		isUser := most >= 0 && s.space() == '{' && isUser(s.b[s.i:])
		if isUser && most == 0 || !w.element(s, 0) || !w.flush() {
			return
		}
		if isUser {
			if most--; most == 0 {
				return
			}
		}
	}
}

// list writes a list, of tools for example.
func (w *promptWriter) list(s *scan) {
	w.mark("[")
	for more := s.firstElement(); more; more = s.nextElement() {
		if !w.element(s, 0) {
			return
		}
	}
	w.mark("]")
}

func (w *promptWriter) element(s *scan, depth int) bool {
	if s.space() == '{' {
		return w.object(s, depth)
	}
	return w.value(s)
}

// value writes what comes next as it is written, also if it is cut.
func (w *promptWriter) value(s *scan) bool {
	s.space()
	from := s.i
	if !s.skip() {
		w.put(s.b[from:])
		return false
	}
	w.put(s.b[from:s.i])
	return true
}

// object writes an object without white space between its members.
func (w *promptWriter) object(s *scan, depth int) bool {
	w.mark("{")
	separator := ""
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		content := string(key) == "content" && depth < maxContents
		if string(key) == "cache_control" {
			if !s.skip() {
				return false
			}
			continue
		}
		w.mark(separator)
		w.put(s.b[s.name.from-1 : s.name.to+1])
		w.mark(":")
		separator = ","
		if content && s.space() == '[' {
			if !w.content(s, depth) {
				return false
			}
		} else if !w.value(s) {
			return false
		}
	}
	if s.fault != noFault {
		return false
	}
	w.mark("}")
	return true
}

// content writes the parts of a content as the string that has their texts.
func (w *promptWriter) content(s *scan, depth int) bool {
	w.mark(`"`)
	for more := s.firstElement(); more; more = s.nextElement() {
		if s.space() == '{' {
			if text, after, ok := textPart(*s); ok {
				w.put(text)
				*s = after
				continue
			}
		}
		if !w.element(s, depth+1) {
			return false
		}
	}
	w.mark(`"`)
	return s.fault == noFault
}

// textPart returns the text of a part that is nothing else, as it is written, and where the part ends.
func textPart(s scan) (text []byte, after scan, ok bool) {
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		isText, isType := string(key) == "text", string(key) == "type"
		if !isText && !isType && string(key) != "cache_control" {
			return nil, s, false
		}
		s.space()
		from := s.i
		if !s.skip() {
			return nil, s, false
		}
		switch value := s.b[from:s.i]; {
		case isText && len(value) > 1 && value[0] == '"':
			text = value[1 : len(value)-1]
		case isText:
			return nil, s, false
		case isType && string(value) != `"text"` && string(value) != `"input_text"`:
			return nil, s, false
		}
	}
	return text, s, text != nil && s.fault == noFault
}
