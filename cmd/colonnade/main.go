// Command colonnade is the command line: a fleet in one process, documents, a simulated engine.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/cmd/internal/command"
	"colonnade/node"
)

func main() {
	root := newRoot()
	root.SetArgs(doubleDashes(os.Args[1:]))
	if err := root.ExecuteContext(command.NotifyContext()); err != nil {
		tell(os.Stderr, err)
		os.Exit(1)
	}
}

// tell prints why a command failed. The error may repeat what somebody has put into the store.
func tell(notes io.Writer, err error) {
	fmt.Fprintln(notes, "colonnade:", shownLines(err.Error()))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "colonnade",
		Short: "Run and look after a Colonnade fleet",
		Long:  "Run and look after a Colonnade fleet. Flags may begin with one dash or two.",
		Example: `  colonnade up
  colonnade config apply deploy/fleet.yaml
  colonnade config status`,
		Version:       node.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	group(root, newUp(), newConfig(), newKeys(), newStatus(), newEvents(), newHealth(), newEngine())
	failUnwritten(root)
	return root
}

// doubleDashes lets flags be written with one dash, as those of the other binaries are: there are no short ones. A dash
// before a digit is a negative value.
func doubleDashes(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' && (a[1] < '0' || a[1] > '9') {
			a = "-" + a
		}
		out[i] = a
		if a == "--" {
			copy(out[i:], args[i:])
			break
		}
	}
	return out
}

// fromEnvironment returns the environment's value of a flag, or def.
func fromEnvironment(flag, def string) string {
	name := "COLONNADE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if v, ok := os.LookupEnv(name); ok {
		return v
	}
	return def
}
