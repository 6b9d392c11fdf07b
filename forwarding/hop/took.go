package hop

import (
	"strconv"
	"time"
)

// maxTook bounds the values of [HeaderTook] that are believed.
const maxTook = 24 * time.Hour

// FormatTook returns the value of [HeaderTook].
func FormatTook(d time.Duration) string { return strconv.FormatInt(max(d, 0).Microseconds(), 10) }

// ParseTook returns the time in a value of [HeaderTook], or false if it has none.
func ParseTook(value string) (time.Duration, bool) {
	us, err := strconv.ParseUint(value, 10, 64)
	if err != nil || us > uint64(maxTook/time.Microsecond) {
		return 0, false
	}
	return time.Duration(us) * time.Microsecond, true
}
