package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// printStatus writes a status for a terminal.
func printStatus(out io.Writer, s *status) {
	total := 0
	for _, n := range s.Documents {
		total += n
	}
	fmt.Fprintf(out, "etcd %s is at revision %d and has %s\n", s.Etcd, s.Revision, count(total, "document"))
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.Documents)) {
		text := fmt.Sprintf("%s %d", shown(string(kind)), s.Documents[kind])
		if n := s.Registered[kind]; n > 0 && n < s.Documents[kind] {
			text += fmt.Sprintf(" (%d registered)", n)
		} else if n > 0 {
			text += " (registered)"
		}
		kinds = append(kinds, text)
	}
	if total > 0 {
		fmt.Fprintln(out, wrapped("  "+strings.Join(kinds, ", "), "  "))
	}
	fmt.Fprintln(out)
	printNodes(out, s.Nodes)
	printList(out, "warnings", s.Warnings)
	printList(out, "wrong", s.Wrong) // last, and so in sight
	if len(s.Wrong) == 0 {
		fmt.Fprintln(out, "\nnothing is wrong")
	}
}

func printList(out io.Writer, title string, texts []string) {
	if len(texts) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	for _, text := range texts {
		fmt.Fprintln(out, wrapped("- "+shown(text), "  "))
	}
}

func printNodes(out io.Writer, nodes []nodeStatus) {
	if len(nodes) == 0 {
		fmt.Fprintln(out, "no node has registered")
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tROLE\tADMIN\tREVISION\tBEHIND\tHEARD\tREJECTED\tHELD\tSUSPECT")
	for _, n := range nodes {
		role := n.Role
		if n.Place != "" {
			role += " " + n.Place
		}
		if n.State != "" && n.State != "active" {
			role += ", " + n.State
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t", shown(n.Node), shown(role), cmp.Or(shown(n.Admin), "-"))
		if c := n.Config; c == nil {
			fmt.Fprintln(table, "?\t?\t?\t?\t?\t?")
		} else {
			age := time.Duration(c.AgeSeconds * float64(time.Second))
			fmt.Fprintf(table, "%d\t%d\t%s\t%d\t%d\t%d\n", c.Revision, n.Behind, brief(age), len(c.Rejected),
				len(c.PendingDeletions), len(c.ExpiredLeases))
		}
	}
	_ = table.Flush() // see failUnwritten
}
