package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

func newGet() *cli.Command {
	var store store
	var all bool
	return &cli.Command{
		Name: "get", Usage: "Print documents as they are in etcd, as a file that config apply takes", ArgsUsage: "[KEY | FOLDER/]…",
		Flags: []cli.Flag{store.flag(), &cli.BoolFlag{Name: "all", Destination: &all, Usage: "print registrations and confirmations too, as comments"}},
		Description: `Prints the document of each KEY and all documents below each FOLDER/; without arguments, all.
Left out are registrations of nodes and confirmations of deletions. A document that nodes reject
is printed as a comment, with the reason. API keys are printed with their hashes: applied later,
such a file makes keys valid again that were revoked since, unless you remove the documents
keys/ID.

Examples:
  colonnade config get > fleet.yaml
  colonnade config get models/llama-3.1-8b-instruct endpoints/ams/`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			under := cmd.Args().Slice()
			if slices.Contains(under, "") { // it would list everything
				return document.CheckKey("")
			}
			var found []listed
			if err := store.use(ctx, func(ctx context.Context, client *etcd.Client) (err error) {
				found, err = listEach(ctx, client, under)
				return err
			}); err != nil {
				return err
			}
			return printDocuments(cmd.Writer, cmd.ErrWriter, found, all)
		},
	}
}

// checkUnder returns why u names neither a document nor a folder. What is in etcd can be printed even so.
func checkUnder(u string) error {
	below := strings.TrimSuffix(u, "/") + "/"
	isFolder := document.CheckKey(below+"x") == nil || document.CheckKey(below+"x/x") == nil
	switch err := document.CheckKey(u); {
	case isFolder && below == u:
		return nil
	case err != nil && isFolder:
		return fmt.Errorf("%s: not a document; the documents below it are %s", u, below)
	default:
		return err
	}
}

// listed is what etcd has for one argument; under is empty if everything was asked for.
type listed struct {
	under string
	docs  []etcd.Stored
}

func listEach(ctx context.Context, client *etcd.Client, under []string) ([]listed, error) {
	if len(under) == 0 {
		under = []string{""}
	}
	var found []listed
	for _, u := range under {
		docs, _, err := etcd.List(ctx, client, node.Prefix, u)
		if err != nil {
			return nil, err
		}
		found = append(found, listed{under: u, docs: docs})
	}
	return found, nil
}

// printDocuments writes documents to out, and notes about them to notes.
func printDocuments(out, notes io.Writer, found []listed, all bool) error {
	var wanted []etcd.Stored
	for _, l := range found {
		some := slices.DeleteFunc(slices.Clone(l.docs), func(d etcd.Stored) bool {
			return !all && d.Key != l.under && (isRegistered(d) || d.Key == string(fleet.KindDeletions))
		})
		if len(some) == 0 && l.under != "" {
			return notThere(l)
		}
		wanted = append(wanted, some...)
	}
	slices.SortFunc(wanted, func(a, b etcd.Stored) int { return cmp.Compare(a.Key, b.Key) })
	wanted = slices.CompactFunc(wanted, func(a, b etcd.Stored) bool { return a.Key == b.Key })
	text, rejected := asFile(wanted)
	if _, err := out.Write(text); err != nil {
		return err
	}
	if len(wanted) == 0 {
		fmt.Fprintln(notes, "there are no documents")
	}
	for _, err := range rejected {
		fmt.Fprintln(notes, "only a comment:", command.Printable(err.Error()))
	}
	if len(text) > document.MaxFile {
		fmt.Fprintf(notes, "config apply takes at most %d bytes at once, but these are %d: get them kind by kind\n",
			document.MaxFile, len(text))
	}
	return nil
}

func notThere(l listed) error {
	wrong := checkUnder(l.under)
	switch {
	case len(l.docs) == 0 && wrong != nil:
		return wrong
	case len(l.docs) > 0:
		return fmt.Errorf("no operator has written a document below %s; -all shows %s",
			l.under, count(len(l.docs), "registration"))
	case strings.HasSuffix(l.under, "/"):
		return fmt.Errorf("there is no document below %s", l.under)
	}
	return fmt.Errorf("there is no document %s", l.under)
}

// asFile joins documents to a file that config apply takes. Registrations, confirmations and rejected documents become
// comments; rejected are the reasons of the latter.
func asFile(docs []etcd.Stored) (file []byte, rejected []error) {
	for _, d := range docs {
		text, err := document.JoinFile([]document.Raw{{Key: d.Key, Value: d.Value}})
		if err == nil {
			err = document.Check(d.Key, d.Value)
		}
		switch {
		case err != nil:
			rejected = append(rejected, err)
			text = comment("Not accepted: "+command.Printable(err.Error()), d)
		case isRegistered(d):
			text = comment("Registered by a node, for as long as it runs:", d)
		case d.Key == string(fleet.KindDeletions):
			text = comment("Confirms what was deleted until then, and nothing later:", d)
		}
		if len(file) > 0 {
			file = append(file, "---\n"...)
		}
		file = append(file, text...)
	}
	return file, rejected
}

// comment returns a document as comment lines. config apply skips a document of comments only.
func comment(why string, d etcd.Stored) []byte {
	text, err := document.JoinFile([]document.Raw{{Key: d.Key, Value: d.Value}})
	if err != nil {
		text = fmt.Appendf(nil, "key: %s\n%s", command.Printable(d.Key), d.Value)
	}
	out := []byte("# " + why + "\n")
	for line := range bytes.Lines(text) {
		out = append(out, strings.TrimRight("# "+command.Printable(string(bytes.TrimRight(line, "\r\n"))), " ")+"\n"...)
	}
	return out
}
