// Package wording has the numbers, durations and lists of texts for operators, in one form for commands and nodes.
package wording

import (
	"fmt"
	"strings"
	"time"
)

// Count returns a number of things, in the plural unless it is 1.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// FirstOf lists the first few of many names.
func FirstOf(names []string) string {
	const most = 4
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Brief returns a duration with three digits, or in minutes and seconds.
func Brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.2fms", d.Seconds()*1e3)
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%.0fms", d.Seconds()*1e3)
	case d < 9995*time.Millisecond:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < 59950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// InDays returns a duration in days if it has at least two.
func InDays(d time.Duration) string {
	if days := int(d.Hours() / 24); days >= 2 {
		return Count(days, "day")
	}
	return Brief(d)
}

// Seconds returns a duration that a node has reported. It is bounded, since a page may hold any number.
func Seconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), 1e7) * float64(time.Second))
}
