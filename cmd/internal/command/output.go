package command

import (
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// output is where a command prints. It remembers the first failed write, so that commands need not check each one.
type output struct {
	to io.Writer

	mu  sync.Mutex // guards the field below
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// File returns the file that a command's Writer writes to, or nil if it is none.
func File(w io.Writer) *os.File {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	file, _ := w.(*os.File)
	return file
}

// Printable returns s, quoted if it holds what a terminal would not print as it is. Events, documents and pages of nodes
// hold text that others have written.
func Printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}
