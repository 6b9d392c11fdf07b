package hop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"colonnade/internal/ascii"
)

// A binary head takes the place of the request line or status line and of the header lines, in both messages of an exchange over a link. The body
// follows as in HTTP/1.1: as many bytes as the head says, or in chunks. Numbers of a fixed size are little-endian; a text is its length, as a varint
// without a sign, and its bytes.
//
//	head    = kind u8 | size of the rest u24 | rest
//	request = 0 | size | length of the body u32 | method text | target text | fields
//	answer  = 1 | size | status u16 | length of the body i64, -1 = in chunks | fields
//	fields  = name text | value text, for each header line
//
// The model is the message of known length of Binary HTTP (RFC 9292, section 3.1). That one does not begin with its size, so a reader would parse it
// again with each read.
const (
	binaryRequest = 0
	binaryAnswer  = 1
)

const (
	// BinaryHeadStart is how many bytes say how long a binary head is.
	BinaryHeadStart = 4
	// MaxBinaryHead is the greatest size of a binary head, in bytes.
	MaxBinaryHead = 16 << 10

	requestFixed = BinaryHeadStart + 4
	answerFixed  = BinaryHeadStart + 2 + 8
)

var (
	// ErrBinaryHeadSize is the error of a head that is too large.
	ErrBinaryHeadSize = fmt.Errorf("a binary head over %d bytes", MaxBinaryHead)

	errHeadKind   = errors.New("a binary head of another kind")
	errHeadStatus = errors.New("a binary head with a status that is not final")
	errHeadLength = errors.New("a binary head with a negative length of the body")
	errHeadField  = errors.New("a binary head with a malformed header line")
)

// IsBinaryHead reports whether a message that begins with this byte has a binary head.
func IsBinaryHead(first byte) bool { return first == binaryRequest || first == binaryAnswer }

// BinaryHeadSize returns the size in bytes of a head that begins with start, which has at least [BinaryHeadStart] bytes.
func BinaryHeadSize(start []byte) (int, error) {
	size := BinaryHeadStart + int(start[1]) + int(start[2])<<8 + int(start[3])<<16
	if size > MaxBinaryHead {
		return 0, ErrBinaryHeadSize
	}
	return size, nil
}

// RequestHead is the head of a request. It is a part of what was parsed.
type RequestHead struct {
	Method, Target []byte
	Length         int // of the body, in bytes
	Fields         HeadFields[[]byte]
}

// AnswerHead is the head of an answer. It is a copy of what was parsed.
type AnswerHead struct {
	Status int
	Length int64 // of the body, in bytes; -1 = in chunks
	Fields HeadFields[string]
}

// HeadFields are the header lines of a head, as [ParseRequestHead] and [ParseAnswerHead] have checked them.
type HeadFields[T string | []byte] struct{ encoded T }

// Get returns the first value of a header, which is empty if there is none.
func (f HeadFields[T]) Get(name string) (value T) {
	for rest := f.encoded; len(rest) > 0; {
		var is T
		is, rest, _ = cutText(rest)
		value, rest, _ = cutText(rest)
		if len(is) == len(name) && ascii.EqualFold(is, name) {
			return value
		}
	}
	var none T
	return none
}

// BeginRequestHead appends the begin of a head. Calls of AppendHeadField and one of EndRequestHead follow.
func BeginRequestHead(dst []byte, method, target string, length int) []byte {
	dst = append(dst, binaryRequest, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(length))
	return appendText(appendText(dst, method), target)
}

// EndRequestHead ends the head at the begin of b.
func EndRequestHead(b []byte) error { return putHeadSize(b) }

// BeginAnswerHead appends the begin of a head. Calls of AppendHeadField and one of EndAnswerHead follow.
func BeginAnswerHead(dst []byte) []byte {
	return append(dst, make([]byte, answerFixed)...)
}

// EndAnswerHead ends the head at the begin of b.
func EndAnswerHead(b []byte, status int, length int64) error {
	b[0] = binaryAnswer
	binary.LittleEndian.PutUint16(b[BinaryHeadStart:], uint16(status))
	binary.LittleEndian.PutUint64(b[BinaryHeadStart+2:], uint64(length))
	return putHeadSize(b)
}

// AppendHeadField appends a header line, unless its value is empty.
func AppendHeadField(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendText(appendText(dst, name), value)
}

// AppendHeadFieldBy appends a header line. appendValue appends its value; its error is returned.
func AppendHeadFieldBy(dst []byte, name string, appendValue func([]byte) ([]byte, error)) ([]byte, error) {
	dst = appendText(dst, name)
	from := len(dst)
	dst, err := appendValue(dst)
	if err != nil {
		return dst, err
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Insert(dst, from, length[:binary.PutUvarint(length[:], uint64(len(dst)-from))]...), nil
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func putHeadSize(b []byte) error {
	if len(b) > MaxBinaryHead {
		return ErrBinaryHeadSize
	}
	size := len(b) - BinaryHeadStart
	b[1], b[2], b[3] = byte(size), byte(size>>8), byte(size>>16)
	return nil
}

// ParseRequestHead parses a head of a request, which is all of b.
func ParseRequestHead(b []byte) (h RequestHead, err error) {
	switch {
	case len(b) < requestFixed:
		return h, errShort
	case b[0] != binaryRequest:
		return h, errHeadKind
	}
	h.Length = int(binary.LittleEndian.Uint32(b[BinaryHeadStart:]))
	var hasMethod, hasTarget bool
	rest := b[requestFixed:]
	h.Method, rest, hasMethod = cutText(rest)
	h.Target, rest, hasTarget = cutText(rest)
	if !hasMethod || !hasTarget {
		return RequestHead{}, errShort
	}
	h.Fields, err = parseFields(rest)
	return h, err
}

// ParseAnswerHead parses a head of an answer, which is all of b.
func ParseAnswerHead(b []byte) (h AnswerHead, err error) {
	switch {
	case len(b) < answerFixed:
		return h, errShort
	case b[0] != binaryAnswer:
		return h, errHeadKind
	}
	h.Status = int(binary.LittleEndian.Uint16(b[BinaryHeadStart:]))
	h.Length = int64(binary.LittleEndian.Uint64(b[BinaryHeadStart+2:]))
	switch {
	case h.Status < 200 || h.Status > 599:
		return h, errHeadStatus
	case h.Length < -1:
		return h, errHeadLength
	}
	fields, err := parseFields(b[answerFixed:])
	h.Fields.encoded = string(fields.encoded)
	return h, err
}

// parseFields checks header lines: each is whole, and its value could stand in a head of text. Names are only compared.
func parseFields(encoded []byte) (HeadFields[[]byte], error) {
	for rest := encoded; len(rest) > 0; {
		var name, value []byte
		var hasName, hasValue bool
		name, rest, hasName = cutText(rest)
		value, rest, hasValue = cutText(rest)
		if !hasName || !hasValue || len(name) == 0 || ascii.HasControl(value) {
			return HeadFields[[]byte]{}, errHeadField
		}
	}
	return HeadFields[[]byte]{encoded}, nil
}

// cutText returns the text at the begin of b, and what follows it.
func cutText[T string | []byte](b T) (text, after T, ok bool) {
	if len(b) == 0 {
		return text, text, false
	}
	length, size := int(b[0]), 1
	if length >= 0x80 { // two bytes, since a head is shorter than 1<<14; and not for a length that fits into one
		if len(b) < 2 || b[1] == 0 || b[1] >= 0x80 {
			return text, text, false
		}
		length, size = length&0x7f|int(b[1])<<7, 2
	}
	if length > len(b)-size {
		return text, text, false
	}
	return b[size : size+length], b[size+length:], true
}
