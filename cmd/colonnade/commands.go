package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// group makes a command that only holds others. Alone it shows what there is; an unknown command is an error that does,
// too.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	return cmd
}

// usageTemplate makes cobra's template fit a terminal, and does not tell that groups run alone.
func usageTemplate(s string) string {
	return strings.NewReplacer(
		".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", lineWidth),
		"{{if .Runnable}}", "{{if not .HasAvailableSubCommands}}",
	).Replace(s)
}

func unknownCommand(cmd *cobra.Command, name string) error {
	return fmt.Errorf("there is no command %q; %s", cmd.CommandPath()+" "+name, commandsOf(cmd))
}

func commandsOf(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return fmt.Sprintf("%s has %s", cmd.CommandPath(), strings.Join(names, ", "))
}

// atLeastOne refuses to run without arguments; what says which are wanted.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return fmt.Errorf("%s needs %s; an example is in %s -h", cmd.CommandPath(), what, cmd.CommandPath())
	}
}

// noMore refuses arguments.
func noMore(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unexpected argument %q: %s takes only flags; %s", args[0], cmd.CommandPath(), flagsOf(cmd))
}

// flagError says which flags there are.
func flagError(cmd *cobra.Command, err error) error {
	text := strings.NewReplacer(" --", " -", `"--`, `"-`, ", --", ", -").Replace(err.Error())
	if before, rest, ok := strings.Cut(text, " strconv."); ok { // "strconv.ParseInt: parsing "x": invalid syntax" says it again
		reason := rest[strings.LastIndex(rest, ":")+1:]
		if isWholeNumber := strings.HasPrefix(rest, "ParseInt"); isWholeNumber && reason == " invalid syntax" {
			reason = " must be a whole number"
		}
		text = before + reason
	}
	return fmt.Errorf("%s; %s", text, flagsOf(cmd))
}

func flagsOf(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return commandsOf(cmd)
	}
	var names []string
	for line := range strings.Lines(cmd.Flags().FlagUsages()) { // a flag on each: "  -n, --number int   how many"
		for _, word := range strings.Fields(line) {
			if name, long := strings.CutPrefix(word, "--"); long && name != "help" {
				names = append(names, "-"+name)
				break
			}
		}
	}
	return fmt.Sprintf("%s has %s", cmd.CommandPath(), strings.Join(names, ", "))
}
