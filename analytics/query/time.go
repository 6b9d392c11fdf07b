package query

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timeLayouts are the forms of a time, from the most to the least precise. All but the first are in the local time zone.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// clockLayouts are the forms of a time of the day of now.
var clockLayouts = []string{"15:04:05", "15:04"}

// ParseTime reads a time as operators write it: a time, a day, a time of the day, a duration before now, or the words now, today and
// yesterday. Days begin at midnight in the time zone of now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, nil
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	}
	if ago, ok := parseDuration(text); ok {
		return now.Add(-ago), nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range clockLayouts {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time; examples: 90m or 2d (before now), 14:30 (today), 2026-11-22, \"2026-11-22 14:30\", 2026-11-22T14:30:00Z, today, yesterday", text)
}

// parseDuration reads a duration, in which d is a day of 24 hours.
func parseDuration(text string) (time.Duration, bool) {
	var days float64
	if before, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseFloat(before, 64)
		if err != nil || !(n >= 0 && n <= 36500) { // not a number, too
			return 0, false
		}
		days, text = n, cmp.Or(rest, "0s")
	}
	d, err := time.ParseDuration(text)
	return d + time.Duration(days*24*float64(time.Hour)), err == nil && d >= 0
}
