package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

// helpWidth is the number of columns that help is wrapped to.
const helpWidth = 100

// helpTemplate is the library's template for a command, with the flags before the description, which ends with examples.
const helpTemplate = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{template "usageTemplate" .}}

OPTIONS:{{template "visibleFlagTemplate" .}}{{if .Description}}

DESCRIPTION:
   {{template "descriptionTemplate" .}}{{end}}
`

// bindEnvironment lets the environment provide the value of a flag that the command line does not set: -key-file is
// COLONNADE_KEY_FILE.
func bindEnvironment(f cli.Flag) {
	source := cli.EnvVars("COLONNADE_" + strings.ToUpper(strings.ReplaceAll(f.Names()[0], "-", "_")))
	switch f := f.(type) {
	case *cli.StringFlag:
		f.Sources = source
		f.SetStringer(describeFlag)
	case *cli.StringSliceFlag:
		f.Sources = source
		f.SetStringer(describeFlag)
	case *cli.IntFlag:
		f.Sources = source
		f.SetStringer(describeFlag)
	case *cli.DurationFlag:
		f.Sources = source
		f.SetStringer(describeFlag)
	case *cli.BoolFlag:
		f.Sources = source
		f.SetStringer(describeFlag)
		f.DefaultText = fmt.Sprint(f.Value)
	default:
		panic(fmt.Sprintf("command: flag -%s has the unknown type %T", f.Names()[0], f))
	}
}

// describeFlag returns the entry of a flag in help: its name in one line, and below it its usage, default and
// environment variable, wrapped. The template indents all lines but the first by six.
func describeFlag(f cli.Flag) string {
	name, usage, _ := strings.Cut(cli.FlagStringer(f), "\t")
	lines := []string{name}
	width := helpWidth // so that the first word begins a line
	for word := range strings.FieldsSeq(usage) {
		if last := len(lines) - 1; width+1+len(word) > helpWidth-6 {
			lines, width = append(lines, word), len(word)
		} else {
			lines[last] += " " + word
			width += 1 + len(word)
		}
	}
	return strings.Join(lines, "\n")
}
