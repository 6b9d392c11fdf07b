package main

import (
	"colonnade/change"
	"colonnade/cmd/internal/command"
)

// linesOf describes what a change did, a line for each document.
func linesOf(done change.Done) (all []string) {
	for _, a := range done.Applied {
		verb, note := "applied ", ""
		if a.Unchanged {
			verb = "unchanged "
		} else if a.SameMeaning {
			verb, note = "rewritten ", ", unchanged in meaning: only comments or style differ"
		}
		all = append(all, verb+a.Key+command.Printable(a.Where)+note)
	}
	for _, d := range done.Deleted {
		all = append(all, "deleted "+command.Printable(d.Key+d.Where))
	}
	return all
}

// configFlag is the flag that a further command needs to work with the same documents; etcd is named by the environment.
func configFlag(d *change.Documents) string {
	if !d.InFiles() {
		return ""
	}
	return " -config " + d.Path
}
