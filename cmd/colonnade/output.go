package main

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"
)

// output is where a command prints. It remembers that something could not be written, so that commands need not look at each
// print: see failUnwritten.
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

// failUnwritten makes each command below cmd fail whose output could not be written as a whole: whoever redirects it into a
// file must not take half of it for all.
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
