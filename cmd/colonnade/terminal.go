package main

import (
	"cmp"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// terminal is what is known of where a command prints.
type terminal struct {
	is            bool // it is one
	width, height int  // of a terminal
	moves         bool // its cursor can be moved
	colours       bool
	ascii         bool // it has no other characters
}

func terminalOf(out io.Writer) terminal {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	t := terminal{ascii: !strings.Contains(strings.ReplaceAll(locale, "-", ""), "UTF8")}
	if o, ok := out.(*output); ok {
		out = o.to
	}
	file, ok := out.(*os.File)
	if !ok {
		return t
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return t
	}
	t.is, t.width, t.height = true, int(size.Col), int(size.Row)
	if t.width == 0 || t.height == 0 { // one that does not know
		t.width, t.height = 80, 24
	}
	t.moves = os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
	t.colours = t.moves && os.Getenv("NO_COLOR") == ""
	return t
}
