package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

func newValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE…",
		Short: "Check documents without etcd, one by one and together; - is standard input",
		Long: `Check documents without etcd. Each is checked as config apply does. Of those that are good, it is
told where two claim the same, and what refers to something that is not there; references to kinds
of which the files have none are not checked. Only errors, not warnings, give an exit status other
than 0.`,
		Example: `  colonnade config validate deploy/fleet.yaml
  colonnade config get | colonnade config validate -`,
		Args: atLeastOne("at least one FILE, or - for standard input"),
		RunE: func(cmd *cobra.Command, files []string) error {
			docs, failed := readEach(cmd.InOrStdin(), files)
			v := validate(docs)
			for _, err := range failed {
				fmt.Fprintln(cmd.OutOrStdout(), "error:", shown(err.Error()))
			}
			for _, text := range v.wrong {
				fmt.Fprintln(cmd.OutOrStdout(), "error:", text)
			}
			for _, text := range v.odd {
				fmt.Fprintln(cmd.OutOrStdout(), "warning:", text)
			}
			if len(v.unchecked) > 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "not checked: references to "+joined(v.unchecked, ", ")+", of which the files have none")
			}
			summary := count(len(docs), "document") + " good"
			if n := len(failed) + len(v.wrong); n > 0 {
				return errors.New(summary + ", " + count(n, "error") + ", " + count(len(v.odd), "warning"))
			}
			fmt.Fprintln(cmd.OutOrStdout(), summary+", "+count(len(v.odd), "warning"))
			return nil
		},
	}
}

// verdict is what is wrong with documents together: what has an error's weight, and what only a warning's.
type verdict struct {
	wrong, odd []string
	unchecked  []fleet.Kind
}

// validate looks at good documents together. A file need not be a whole fleet: what refers to a kind of which it has none is
// taken to refer to what is elsewhere.
func validate(docs []document.Raw) verdict {
	all, kinds := document.NewSet(), map[fleet.Kind]bool{}
	for _, d := range docs {
		kind, _, _ := strings.Cut(d.Key, "/")
		kinds[fleet.Kind(kind)] = true
		_ = all.Put(d.Key, d.Value, 0) // it is good
	}
	table := all.Table()
	var v verdict
	v.conflicts(table.Conflicts)
	v.odd = append(v.odd, oddPools(table)...)
	unchecked := map[fleet.Kind]bool{}
	for _, d := range table.Dangling() {
		if kinds[d.Missing] {
			v.odd = append(v.odd, danglingText(d))
		} else {
			unchecked[d.Missing] = true
		}
	}
	v.unchecked = slices.Sorted(maps.Keys(unchecked))
	return v
}

// conflicts sorts what two documents claim. An alias that another model has is a matter of precedence, which is well defined;
// a second document for a URL or a key is not in force in part, and that can only be a mistake.
func (v *verdict) conflicts(conflicts []fleet.Conflict) {
	for _, c := range conflicts {
		switch c.What {
		case "alias":
			v.odd = append(v.odd, fmt.Sprintf("%s: aliases: %q: requests for it go to %s, which has that name or alias, too", c.Loser, c.Value, c.Winner))
		case "url":
			v.wrong = append(v.wrong, fmt.Sprintf("%s: url: %q: not in force, since %s has this URL, too", c.Loser, c.Value, c.Winner))
		default:
			v.wrong = append(v.wrong, fmt.Sprintf("%s: %s: %q: not in force, since %s has this %s, too", c.Loser, c.What, c.Value, c.Winner, c.What))
		}
	}
}

func danglingText(d fleet.Dangling) string {
	if d.Field == "" {
		return d.Document + ": " + d.Reason
	}
	return fmt.Sprintf("%s: %s: %q: %s", d.Document, d.Field, d.Value, d.Reason)
}
