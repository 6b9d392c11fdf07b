package openai

// JSON passes over a JSON text once, checks all of it and builds nothing, for packages that translate bodies. Its methods go
// from one token to the next; after the first error they all fail.
type JSON struct{ scan scan }

// NewJSON returns a JSON at the beginning of a text. In an engine's text, which is lax, bytes that are not UTF-8 pass.
func NewJSON(text []byte, lax bool) JSON { return JSON{scan{b: text, lax: lax}} }

// FirstMember enters an object and returns its first key, standing at the value. ok is false for an empty object, which has
// then been left, and for an error. The key is valid until the next one.
func (j *JSON) FirstMember() (key []byte, ok bool) { return j.scan.firstMember() }

// NextMember goes on from the end of a value to the next key, or leaves the object.
func (j *JSON) NextMember() (key []byte, ok bool) { return j.scan.nextMember() }

// FirstElement enters an array, standing at its first element, or leaves it if it is empty.
func (j *JSON) FirstElement() bool { return j.scan.firstElement() }

// NextElement goes on from the end of an element to the next one, or leaves the array.
func (j *JSON) NextElement() bool { return j.scan.nextElement() }

// Skip passes a value.
func (j *JSON) Skip() bool { return j.scan.skip() }

// Value passes a value and returns it as written, without white space around it; nil after an error.
func (j *JSON) Value() []byte {
	if raw, ok := j.scan.value(); ok {
		return raw
	}
	return nil
}

// Kind goes to the next value and returns its first byte, or 0 at the end.
func (j *JSON) Kind() byte { return j.scan.space() }

// OK reports whether there was no error so far.
func (j *JSON) OK() bool { return j.scan.fault == noFault }

// End reports whether there was no error and only white space follows.
func (j *JSON) End() bool { return j.scan.end() }

// Unquoted returns the part between the quotes of a value as written, if it is a string.
func Unquoted(raw []byte) ([]byte, bool) { return unquoted(raw) }

// Unescaped returns the text of a value as written, if it is a string, else nil.
func Unescaped(raw []byte) []byte { return unescaped(raw) }

// AppendString appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func AppendString[T string | []byte](dst []byte, s T) []byte { return appendString(dst, string(s)) }
