package hop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// BinaryTokenProtocol is the first protocol between nodes in which tokens have the layout of [layoutToken], as version 3. A sender signs JSON, as
// version 2, for a receiver whose protocol is older; a receiver accepts both.
const BinaryTokenProtocol = 5

// layoutToken writes or reads the payload of a token: its fields in one fixed order, without names. A field that is added or moved therefore needs
// another version of the token, and a protocol from which on it is sent.
//
//   - Whole numbers are varints as of [encoding/binary], of the fewest bytes; durations are varints of milliseconds.
//   - Texts and lists begin with their length, as a varint without a sign.
//   - Fractions are IEEE 754 numbers of eight bytes, big-endian.
//   - Booleans share a byte, the first one in the lowest bit.
//
// A token has one encoding, and a payload that any other bytes follow is not valid.
func layoutToken(c *codec, t *Token) {
	hasHeaders := t.Headers != nil
	layoutNumber(c, &t.Issued)
	c.text(&t.Boot)
	c.text(&t.Issuer)
	c.unsigned(&t.Number)
	c.booleans(&hasHeaders, &t.Rejoin, &t.WantsProgress, &t.KeepUsage)
	if hasHeaders {
		layoutHeaders(c, t)
	}
	for _, s := range [...]*string{&t.RequestID, &t.ClientRequestID, &t.Source, &t.Account, &t.Key, &t.Priority, &t.Model, (*string)(&t.Wait)} {
		c.text(s)
	}
	for _, n := range [...]*int{&t.Weight, &t.Concurrent, &t.HopsLeft, &t.Attempt, &t.RetriesLeft, &t.EndpointsFailed} {
		layoutNumber(c, n)
	}
	for _, d := range [...]*Millis{&t.WaitBelow, &t.Waited, &t.FirstByte, &t.Total} {
		c.millis(d)
	}
	layoutNumber(c, &t.Revision)
	c.fraction(&t.ReturnProbability)
	c.texts(&t.Visited)
	c.texts(&t.Unanswered)
	layoutOnward(c, t)
}

func layoutHeaders(c *codec, t *Token) {
	if c.reading {
		t.Headers = &MoreHeaders{}
	}
	c.texts(&t.Headers.Names)
	c.digest(&t.Headers.Sum)
}

func layoutOnward(c *codec, t *Token) {
	const leastStop = 16 // bytes
	n := c.count(len(t.Onward), leastStop)
	if c.reading && n > 0 {
		t.Onward = make([]Stop, n)
	}
	for i := range t.Onward {
		s := &t.Onward[i]
		c.text(&s.Colo)
		c.text(&s.Node)
		c.text(&s.Address)
		c.text(&s.Boot)
		layoutNumber(c, &s.Protocol)
		layoutNumber(c, &s.Revision)
		c.fraction(&s.ReturnProbability)
		c.millis(&s.RoundTrip)
		c.booleans(&s.Last, &s.NoAlternative)
	}
}

// codec writes values to out, or reads them from in, so that one function is the layout for both directions. After an error, out is not to be used,
// and what is read is zero.
type codec struct {
	reading bool
	out     []byte
	in      string // texts that are read are parts of it
	err     error
}

var (
	errShort    = errors.New("it is too short")
	errEncoding = errors.New("a number has another encoding")
	errFlags    = errors.New("a boolean is not known")
	errFraction = errors.New("a fraction is not a finite number")
	errDigest   = errors.New("a digest has another length")
	errNumber   = errors.New("a number is too large")
)

// fail notes the first error, and ends reading.
func (c *codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.in = ""
}

// take returns the next n bytes of what is read, or "" if there are fewer.
func (c *codec) take(n uint64) string {
	if n > uint64(len(c.in)) {
		c.fail(errShort)
		return ""
	}
	taken := c.in[:n]
	c.in = c.in[n:]
	return taken
}

// takeUvarint returns the next varint, of the fewest bytes.
func (c *codec) takeUvarint() (n uint64) {
	if len(c.in) > 0 && c.in[0] < 0x80 { // as most are
		n = uint64(c.in[0])
		c.in = c.in[1:]
		return n
	}
	for i := range min(len(c.in), binary.MaxVarintLen64) {
		b := c.in[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b >= 0x80 {
			continue
		}
		if i > 0 && b == 0 || i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		c.in = c.in[i+1:]
		return n
	}
	if len(c.in) == 0 {
		c.fail(errShort)
	} else {
		c.fail(errEncoding)
	}
	return 0
}

func (c *codec) unsigned(n *uint64) {
	if c.reading {
		*n = c.takeUvarint()
	} else {
		c.out = binary.AppendUvarint(c.out, *n)
	}
}

// layoutNumber is the layout of a whole number.
func layoutNumber[T int | int64](c *codec, n *T) {
	if !c.reading {
		c.out = binary.AppendVarint(c.out, int64(*n))
		return
	}
	zigzag := c.takeUvarint()
	value := int64(zigzag>>1) ^ -int64(zigzag&1)
	if *n = T(value); int64(*n) != value {
		c.fail(errNumber)
	}
}

func (c *codec) millis(d *Millis) {
	ms := time.Duration(*d).Milliseconds()
	layoutNumber(c, &ms)
	if !c.reading {
		return
	}
	if ms > maxMillis || ms < -maxMillis {
		c.fail(fmt.Errorf("%d ms is more than a day", ms))
		ms = 0
	}
	*d = Millis(time.Duration(ms) * time.Millisecond)
}

// fraction has one encoding of 0, which is that without a sign.
func (c *codec) fraction(f *float64) {
	if !c.reading {
		if math.IsNaN(*f) || math.IsInf(*f, 0) {
			c.fail(errFraction)
		}
		c.out = binary.BigEndian.AppendUint64(c.out, math.Float64bits(*f+0))
		return
	}
	var bits uint64
	for _, b := range []byte(c.take(8)) {
		bits = bits<<8 | uint64(b)
	}
	*f = math.Float64frombits(bits)
	if math.IsNaN(*f) || math.IsInf(*f, 0) || *f == 0 && bits != 0 {
		c.fail(errFraction)
		*f = 0
	}
}

// booleans has a byte for at most eight values.
func (c *codec) booleans(values ...*bool) {
	var bits byte
	for i, v := range values {
		if *v {
			bits |= 1 << i
		}
	}
	if !c.reading {
		c.out = append(c.out, bits)
		return
	}
	if taken := c.take(1); taken != "" {
		bits = taken[0]
	}
	if bits>>len(values) != 0 {
		c.fail(errFlags)
		bits = 0
	}
	for i, v := range values {
		*v = bits>>i&1 != 0
	}
}

func (c *codec) text(s *string) {
	if c.reading {
		*s = c.take(c.takeUvarint())
	} else {
		c.out = append(binary.AppendUvarint(c.out, uint64(len(*s))), *s...)
	}
}

func (c *codec) texts(list *[]string) {
	n := c.count(len(*list), 1)
	if c.reading && n > 0 {
		*list = make([]string, n)
	}
	for i := range *list {
		c.text(&(*list)[i])
	}
}

// count is the layout of the length of a list whose elements have at least some bytes each, and returns it. A length that is read fits into what
// follows it, so that nothing larger is allocated.
func (c *codec) count(n, least int) int {
	length := uint64(n)
	c.unsigned(&length)
	if c.reading && length > uint64(len(c.in)/least) {
		c.fail(errShort)
		return 0
	}
	return int(length)
}

// digest is the layout of a SHA-256 digest.
func (c *codec) digest(sum *[]byte) {
	const size = len(bodyDigest{})
	switch {
	case c.reading:
		*sum = []byte(c.take(uint64(size)))
	case len(*sum) != size:
		c.fail(errDigest)
	default:
		c.out = append(c.out, *sum...)
	}
}

// appendPayload appends the token in binary to dst. It returns an error if the token has a fraction that is not finite.
func (t *Token) appendPayload(dst []byte) ([]byte, error) {
	c := codec{out: dst}
	layoutToken(&c, t)
	return c.out, c.err
}

// parsePayload reads a token in binary, whose texts become parts of payload.
func (t *Token) parsePayload(payload string) error {
	c := codec{reading: true, in: payload}
	layoutToken(&c, t)
	if c.err == nil && c.in != "" {
		return fmt.Errorf("%d bytes follow it", len(c.in))
	}
	return c.err
}
