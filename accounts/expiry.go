package accounts

import (
	"errors"
	"time"
)

// ParseExpiry parses when a key is to expire: a duration from now, a day (UTC) or a time. Empty is never: the zero time.
func ParseExpiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	at, ok := time.Time{}, false
	if d, err := time.ParseDuration(s); err == nil {
		at, ok = now.Add(d), true
	}
	for _, shape := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(shape, s); err == nil {
			at, ok = t, true
		}
	}
	switch {
	case !ok:
		return at, errors.New("must be a duration such as 720h (30 days), a day such as 2027-01-31 or a time such as 2027-01-31T12:00:00Z")
	case !at.After(now):
		return at, errors.New("that is in the past")
	}
	return at.UTC().Truncate(time.Second), nil
}
