package fleet

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span, written like 250ms or 1m30s. It is never negative.
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns d in the syntax of documents.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes d as a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a string with a unit, or the number 0.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if string(data) == "0" {
		*d = 0
		return nil
	}
	var s string
	if json.Unmarshal(data, &s) != nil {
		return errDuration
	}
	parsed, err := time.ParseDuration(s)
	if err != nil || parsed < 0 {
		return errDuration
	}
	*d = Duration(parsed)
	return nil
}

var errDuration = errors.New(`must be a duration with its unit, at least 0, such as "250ms", "10s" or "1m30s"`)

// Bytes is a size in bytes, written like 64KiB or as a plain number. It is never negative.
type Bytes int64

// The units of sizes. There are no decimal units, since kB and KB are ambiguous.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// Int returns b as an int.
func (b Bytes) Int() int { return int(b) }

// String returns b in the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range sizeUnits {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalJSON writes b as a string with its unit, or as a number where no unit divides it.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if s := b.String(); !strings.HasSuffix(s, "B") {
		return []byte(s), nil
	}
	return json.Marshal(b.String())
}

// UnmarshalJSON reads a plain number, or a string with a unit.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	s := string(data)
	if strings.HasPrefix(s, `"`) && json.Unmarshal(data, &s) != nil {
		return errBytes
	}
	factor := Bytes(1)
	for _, u := range sizeUnits {
		if number, found := strings.CutSuffix(s, u.name); found {
			s, factor = number, u.size
			break
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/factor) {
		return errBytes
	}
	*b = Bytes(n) * factor
	return nil
}

var errBytes = errors.New(`must be a size, at least 0: a whole number of bytes, or one with KiB, MiB or GiB such as "64KiB"`)

// sizeUnits lists the units of sizes, largest first.
var sizeUnits = []struct {
	name string
	size Bytes
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}
