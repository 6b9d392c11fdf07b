package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// writeJSON writes a value as JSON that is safe on a terminal: of what is not ASCII, some would move its cursor, or the
// text. Without an indent it is one line.
func writeJSON(out io.Writer, v any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(onlyASCII(b.Bytes()))
	return err
}

// onlyASCII escapes what of a JSON text is not printable ASCII. It can stand in strings only.
func onlyASCII(text []byte) []byte {
	var out []byte
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// output is where a command prints. It remembers that something could not be written, so that commands need not look at
// each print: see failUnwritten.
type output struct {
	mu  sync.Mutex // guards the fields below
	to  io.Writer
	err error // the first one
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.to.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// unwritten returns why something is missing from the output, or nil.
func (o *output) unwritten() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// failUnwritten makes each command below cmd fail whose output could not be written as a whole: whoever redirects it
// into a file must not take half of it for all.
func failUnwritten(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		failUnwritten(c)
	}
	work := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := &output{to: cmd.OutOrStdout()}
		cmd.SetOut(out)
		err := work(cmd, args)
		if lost := out.unwritten(); lost != nil && !errors.Is(err, lost) {
			err = errors.Join(err, fmt.Errorf("cannot write the output: %w", lost))
		}
		return err
	}
}
