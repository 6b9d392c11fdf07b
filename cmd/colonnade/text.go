package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"colonnade/internal/wording"
)

// writeJSON writes a value as JSON: on several lines, or on one if compact.
func writeJSON(out io.Writer, v any, compact bool) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if !compact {
		encoder.SetIndent("", "  ")
	}
	return encoder.Encode(v)
}

// count returns a number of things, in the plural unless it is 1.
func count(n int, thing string) string { return wording.Count(n, thing) }

// firstOf lists the first few of many names.
func firstOf(names []string) string { return wording.FirstOf(names) }

// joined lists values of a string type.
func joined[T ~string](values []T) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}

// brief returns a duration with three digits, or in minutes and seconds.
func brief(d time.Duration) string { return wording.Brief(d) }

// seconds returns a duration that a node has reported. It is bounded, since a page may hold any number.
func seconds(s float64) time.Duration { return wording.Seconds(s) }

// millis is seconds for milliseconds.
func millis(ms int64) time.Duration { return seconds(float64(ms) / 1e3) }

// figure returns a number with three digits.
func figure(x float64) string {
	switch {
	case x >= 999_500:
		return fmt.Sprintf("%.3gM", x/1e6)
	case x >= 999.5:
		return fmt.Sprintf("%.3gk", x/1e3)
	case x > 0 && x < 0.01:
		return "<0.01"
	}
	return fmt.Sprintf("%.3g", x)
}

// size returns a number of bytes in a unit that leaves few digits.
func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
