package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// shown makes a text safe for a terminal. Not all that is in events, in the store or on a node's page is written by us.
func shown(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0 {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// shownASCII is shown for what must have one column for each character, such as names, which are ASCII.
func shownASCII(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// shownLines is shown for each line by itself.
func shownLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = shown(line)
	}
	return strings.Join(lines, "\n")
}

// count writes a number of things, in the plural where it should be.
func count(n int, thing string) string {
	many := thing + "s"
	if kept, ok := strings.CutSuffix(thing, "y"); ok && !strings.ContainsAny(kept[max(0, len(kept)-1):], "aeiou") {
		many = kept + "ies"
	}
	return fmt.Sprintf("%d %s", n, oneMany(n, thing, many))
}

func isAre(n int, thing string) string { return count(n, thing) + " " + oneMany(n, "is", "are") }

// brief writes a duration with three digits, or in minutes and seconds.
func brief(d time.Duration) string {
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

func oneMany(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// some names the first of many.
func some(names []string) string {
	const most = 4
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// lineWidth is that of a terminal nobody has made smaller.
const lineWidth = 100

// wrapped breaks a text into lines at spaces; all but the first begin with indent.
func wrapped(text, indent string) string { return wrappedTo(text, indent, lineWidth) }

func wrappedTo(text, indent string, limit int) string {
	var out strings.Builder
	width := 0
	for i, word := range strings.Split(text, " ") {
		w := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+w > limit:
			out.WriteString("\n" + indent)
			width = len(indent)
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(word)
		width += w
	}
	return out.String()
}

// joined joins words of a type of their own.
func joined[T ~string](words []T, separator string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// pause waits, and reports whether ctx is still good.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
