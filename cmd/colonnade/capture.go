package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

func newCapture() *cli.Command {
	return &cli.Command{
		Name: "capture", Usage: "Capture requests of one account with their content, to debug",
		Commands: []*cli.Command{newCaptureStart(), newCaptureStop(), newCaptureList()},
		Description: `A capture writes what one account sends and gets, prompts and completions included, to a file
or a URL, until a time that must be given. Nothing else in Colonnade keeps content. Each capture
is a document, captures/NAME; entries begin and end it within a second, log it every minute, and
the account's responses have the header x-colonnade-captured. colonnade status shows it.

Examples:
  colonnade capture start -account acme -for 10m -sink file:/var/lib/colonnade/acme.jsonl
  colonnade capture list
  colonnade capture stop acme`,
	}
}

// captureKey returns the key of a capture's document.
func captureKey(name string) string { return fleet.KindCapture.Key(name) }

// capturesIn returns the captures among documents, sorted by name.
func capturesIn(docs []etcd.Stored) (found []*fleet.Capture) {
	set := document.NewSet()
	for _, d := range docs {
		if change.KindIn(d.Key) != fleet.KindCapture {
			continue
		}
		if d.PutInto(set) == nil {
			found = append(found, set.Noun(d.Key).(*fleet.Capture))
		}
	}
	slices.SortFunc(found, func(a, b *fleet.Capture) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

func newCaptureStop() *cli.Command {
	var store store
	return &cli.Command{
		Name: "stop", Usage: "End captures, by their names", ArgsUsage: "NAME…", ArgValidator: command.RequireArgs("at least one NAME"),
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag()},
		Description: `Deletes the documents. The records so far stay where they are.

Examples:
  colonnade capture stop acme`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			stop := changing{force: true}
			return stop.run(ctx, cmd, d, deleteCaptures(cmd.Args().Slice()))
		}),
	}
}

// deleteCaptures returns the decision to delete captures. Its error names each that does not exist, and then none is deleted.
func deleteCaptures(names []string) change.Decision {
	return func(_ context.Context, before []etcd.Stored) (etcd.Edit, error) {
		var e etcd.Edit
		var failed []error
		for _, name := range names {
			if _, found := change.WithKey(before, captureKey(name)); !found {
				failed = append(failed, fmt.Errorf("%s: there is no capture of this name; colonnade capture list shows all", command.Printable(name)))
			}
			e.Delete = append(e.Delete, captureKey(name))
		}
		return e, errors.Join(failed...)
	}
}

// listedCapture is a capture as the list shows it.
type listedCapture struct {
	Name     string      `json:"name"`
	Account  string      `json:"account"`
	Until    time.Time   `json:"until"`
	Sink     string      `json:"sink"`
	MaxBytes fleet.Bytes `json:"max_bytes"`
	State    string      `json:"state"` // active or ended
}

func newCaptureList() *cli.Command {
	var store store
	var asJSON bool
	return &cli.Command{
		Name: "list", Usage: "List the captures, also those that have ended", ArgValidator: command.RejectArgs,
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag(), &cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"}},
		Description: `Examples:
  colonnade capture list
  colonnade capture list -json`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			docs, err := d.List(ctx, captureKey(""))
			if err != nil {
				return err
			}
			return printCaptures(cmd, capturesIn(docs), asJSON)
		}),
	}
}

func printCaptures(cmd *cli.Command, found []*fleet.Capture, asJSON bool) error {
	captures := []listedCapture{} // an empty list in JSON, not null
	var rows [][]any
	for _, c := range found {
		state := "active"
		if c.EndedAt(time.Now()) {
			state = "ended"
		}
		captures = append(captures, listedCapture{Name: c.Name, Account: c.Account, Until: c.Until, Sink: c.Sink, MaxBytes: c.MaxBytes, State: state})
		rows = append(rows, []any{c.Name, c.Account, stamp(c.Until), state, c.MaxBytes, c.Sink})
	}
	switch {
	case asJSON:
		return writeJSON(cmd.Writer, captures, false)
	case len(rows) == 0:
		fmt.Fprintln(cmd.ErrWriter, "there are no captures")
		return nil
	}
	return show(cmd.Writer, func(out *screen) {
		out.table("", []string{"~NAME", "~ACCOUNT", "UNTIL", "STATE", "MAX_BYTES", "~SINK"}, rows)
	})
}

// checkCaptureFlag returns why a document cannot have the value of a flag.
func checkCaptureFlag(doc document.Raw) error {
	var invalid *document.InvalidError
	if err := document.Check(doc.Key, doc.Value); !errors.As(err, &invalid) {
		return err
	}
	flag := strings.ReplaceAll(invalid.Field, "_", "-")
	if flag == "" {
		flag = "name"
	}
	return fmt.Errorf("-%s: %s", flag, strings.TrimPrefix(strings.TrimPrefix(invalid.Error(), doc.Key+": "), invalid.Field+": "))
}
