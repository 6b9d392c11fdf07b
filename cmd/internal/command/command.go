// Package command holds what the three binaries share: how a command line is parsed, how the environment provides the
// value of each flag, what help looks like, and how a signal ends a process. The commands themselves are values of
// github.com/urfave/cli, which accepts flags with one dash or two, before or after arguments.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v3"
)

// StatusUnknown is the exit status of a command that could not find out what it was asked, and of a wrong command line.
const StatusUnknown = 2

// StatusError is an error with the exit status of the process.
type StatusError struct {
	Status int
	Err    error // nil: nothing went wrong, and nothing is printed
}

func (e *StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns the error without the status.
func (e *StatusError) Unwrap() error { return e.Err }

// WithStatus returns an error with the exit status of the process; nil stays nil.
func WithStatus(status int, err error) error {
	if err == nil {
		return nil
	}
	return &StatusError{status, err}
}

// ExitStatus returns the exit status of a process whose command line failed with err; without one of its own, that is 1.
func ExitStatus(err error) int {
	var with *StatusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &with):
		return with.Status
	}
	return 1
}

// Main runs the process's command line. An error ends the process with its status.
func Main(root *cli.Command) {
	err := Run(notifyContext(), root, os.Args)
	if err == nil {
		return
	}
	var status *StatusError
	if !errors.As(err, &status) || status.Err != nil {
		PrintError(os.Stderr, root.Name, err)
	}
	os.Exit(ExitStatus(err))
}

// PrintError writes why a command failed. Each line of the error is made printable, since it may quote what others have
// written to etcd.
func PrintError(w io.Writer, program string, err error) {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	fmt.Fprintf(w, "%s: %s\n", program, strings.Join(lines, "\n"))
}

// Run runs a command line; args begin with the program's name. It fails if the command fails, or if its output cannot
// be written as a whole, so that a truncated file is not taken for a complete one.
func Run(ctx context.Context, root *cli.Command, args []string) error {
	out := &output{to: root.Writer}
	if out.to == nil {
		out.to = os.Stdout
	}
	root.Writer = out
	root.ExitErrHandler = func(context.Context, *cli.Command, error) {} // the caller handles errors
	prepare(root)
	err := root.Run(ctx, args)
	if lost := out.failure(); lost != nil && !errors.Is(err, lost) {
		err = errors.Join(err, fmt.Errorf("cannot write the output: %w", lost))
	}
	return err
}

// prepare completes a command and the commands below it: the environment of its flags, its help, and its errors.
func prepare(c *cli.Command) {
	for _, f := range c.Flags {
		bindEnvironment(f)
	}
	c.HideHelpCommand = true // "keys revoke help" revokes a key
	c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
		if strings.Contains(c.ArgsUsage, "-- ") {
			err = fmt.Errorf("%w; flags of the command to run stand after --, as in %s [options] -- COMMAND -flag", err, c.FullName())
		}
		return WithStatus(StatusUnknown, fmt.Errorf("%w; see %s -h", err, c.FullName()))
	}
	switch {
	case len(c.Commands) > 0 && c.Action == nil:
		c.Action = showCommands
	case len(c.Commands) > 0:
		c.Action = unlessUnknown(c.Action)
	default:
		c.CustomHelpTemplate, c.CustomRootCommandHelpTemplate = helpTemplate, helpTemplate
	}
	if len(c.Commands) == 0 && c.ArgsUsage == "" && c.ArgValidator == nil {
		c.ArgValidator = RejectArgs
	}
	for _, below := range c.Commands {
		prepare(below)
	}
}

// showCommands is the action of a command that only groups others.
func showCommands(_ context.Context, c *cli.Command) error {
	name := c.Args().First()
	switch {
	case name == "" && c == c.Root():
		return cli.ShowRootCommandHelp(c)
	case name == "":
		return cli.ShowSubcommandHelp(c)
	}
	var names []string
	for _, below := range c.VisibleCommands() {
		names = append(names, below.Name)
	}
	return fmt.Errorf("unknown command %q; %s has %s", name, c.FullName(), strings.Join(names, ", "))
}

// unlessUnknown returns the action of a command that also groups others, whose names are its only arguments.
func unlessUnknown(action cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		if c.Args().Present() {
			return showCommands(ctx, c)
		}
		return action(ctx, c)
	}
}

// RejectArgs is the argument rule of a command that takes none: every command without an ArgsUsage has it.
func RejectArgs(_ context.Context, c *cli.Command) error {
	if !c.Args().Present() {
		return nil
	}
	return fmt.Errorf("unexpected argument %q: %s takes only flags; see %s -h", c.Args().First(), c.FullName(), c.FullName())
}

// RequireArgs returns the rule of a command that needs at least one argument; what names them in the error.
func RequireArgs(what string) cli.ArgValidatorFunc {
	return func(_ context.Context, c *cli.Command) error {
		if c.Args().Present() {
			return nil
		}
		return fmt.Errorf("%s needs %s; see %s -h", c.FullName(), what, c.FullName())
	}
}
