package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/fleet"
	"colonnade/problems"
)

func newConfigStatus() *cli.Command {
	var store store
	var admin string
	var asJSON bool
	return &cli.Command{
		Name: "status", Usage: "Show which documents are in force, in etcd and at each node",
		Flags: []cli.Flag{store.etcdFlag(), adminFlag(&admin), &cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"}},
		Description: `Shows the documents in etcd by kind, how far each node follows them, and everything that is
wrong: what it does to clients, and what to do. HELD is the number of deletions that a node holds
back (see config delete), EXPIRED that of registrations whose leases have expired.

With -admin, etcd is not asked, and not compared with the nodes; a colonnade serve has none.

` + exitStatuses + `

Examples:
  colonnade config status
  colonnade config status -admin 127.0.0.1:9080
  colonnade config status -json | jq '.nodes[] | {node, behind}'`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			p, err := store.poller(admin, nil)
			if err != nil {
				return command.WithStatus(command.StatusUnknown, err)
			}
			defer p.close()
			ctx, cancel := context.WithTimeout(ctx, storeTimeout)
			defer cancel()
			s, err := p.poll(ctx)
			switch {
			case err != nil:
				return command.WithStatus(command.StatusUnknown, err)
			case asJSON:
				err = writeJSON(cmd.Writer, s, false)
			default:
				err = show(cmd.Writer, func(out *screen) { drawConfigStatus(out, s) })
			}
			return cmp.Or(err, s.err())
		},
	}
}

// drawConfigStatus writes a state for people: documents, nodes, problems. The errors come last, where they are in sight.
func drawConfigStatus(out *screen, s *fleetState) {
	if s.Etcd != "" {
		drawDocuments(out, s)
		out.line()
	}
	drawNodes(out, s.Nodes)
	drawVersions(out, s.Nodes)
	drawProblems(out, s, problems.SeverityWarning)
	drawProblems(out, s, problems.SeverityError)
	if len(s.Problems) == 0 {
		out.line(painted("\n"), "no problems")
	}
}

// drawDocuments writes how many documents of each kind there are.
func drawDocuments(out *screen, s *fleetState) {
	total := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.Documents)) {
		n, registered := s.Documents[kind], s.Registered[kind]
		total += n
		text := fmt.Sprintf("%s %d", kind, n)
		if registered == n {
			text += " (registered)"
		} else if registered > 0 {
			text += fmt.Sprintf(" (%d registered)", registered)
		}
		kinds = append(kinds, text)
	}
	out.line("etcd ", s.Etcd, ": revision ", s.Revision, ", ", count(total, "document"))
	out.paragraph("  ", strings.Join(kinds, ", "))
	unregistered := 0
	for _, r := range s.Records {
		if !r.Registered {
			unregistered++
		}
	}
	if n := len(s.Records); n > 0 {
		out.paragraph("  ", fmt.Sprintf("%s of server processes, %d of them not registered", count(n, "record"), unregistered))
	}
}

func drawNodes(out *screen, nodes []nodeState) {
	if len(nodes) == 0 {
		out.line("no node is registered")
		return
	}
	if !slices.ContainsFunc(nodes, func(n nodeState) bool { return n.Config == nil || n.Config.Source == "" }) {
		drawPlaces(out, nodes)
		return
	}
	var rows [][]any
	for _, n := range nodes {
		role := strings.TrimSpace(n.Role + " " + n.Place)
		if n.State != "" && n.State != fleet.StateActive {
			role += ", " + n.State
		}
		row := []any{n.Node, role, cmp.Or(n.Admin, "-")}
		if c := n.Config; c == nil {
			row = append(row, "?", "?", "?", "?", "?", "?")
		} else {
			row = append(row, c.Revision, n.Behind, brief(seconds(c.AgeSeconds)), len(c.Rejected), len(c.PendingDeletions), len(c.ExpiredLeases))
		}
		rows = append(rows, row)
	}
	out.table("", []string{"~NODE", "~ROLE", "ADMIN", "?>REVISION", ">BEHIND", ">AGE", "?>REJECTED", "?>HELD", "?>EXPIRED"}, rows)
}

// drawPlaces writes nodes whose documents are not in etcd.
func drawPlaces(out *screen, nodes []nodeState) {
	var rows [][]any
	for _, n := range nodes {
		c := n.Config
		rows = append(rows, []any{n.Node, n.Role, n.Admin, c.Source, c.Revision, brief(seconds(c.AgeSeconds)), len(c.Rejected)})
	}
	out.table("", []string{"~NODE", "~ROLE", "ADMIN", "~DOCUMENTS", ">REVISION", ">AGE", ">REJECTED"}, rows)
}
