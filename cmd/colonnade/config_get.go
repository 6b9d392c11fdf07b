package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

func newGet() *cli.Command {
	var store store
	var all bool
	return &cli.Command{
		Name: "get", Usage: "Print documents of etcd or of files, as a file that config apply takes", ArgsUsage: "[KEY | FOLDER/]…",
		Flags: []cli.Flag{
			store.etcdFlag(), store.configFlag(),
			&cli.BoolFlag{Name: "all", Destination: &all, Usage: "print registrations and confirmations too, as comments"},
		},
		Description: `Prints the document of each KEY and all documents below each FOLDER/; without arguments, all.
Left out are registrations of nodes, confirmations of deletions and, unless they are named, the
records of server processes (owners/COLO/NODE/BOOT). A document that nodes reject
is printed as a comment, with the reason. API keys are printed with their hashes: applied later,
such a file makes keys valid again that were revoked since, unless you remove the documents
keys/ID.

Examples:
  colonnade config get > fleet.yaml
  colonnade config get -config conf | colonnade config apply -
  colonnade config get models/llama-3.1-8b-instruct endpoints/ams/`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			docs, bad := getDocuments(ctx, d, cmd.Args().Slice(), all)
			if bad != nil && len(docs) == 0 {
				return bad
			}
			text, rejected := asFile(docs)
			if len(docs) == 0 {
				fmt.Fprintln(cmd.ErrWriter, "there are no documents")
			}
			for _, err := range rejected {
				fmt.Fprintln(cmd.ErrWriter, "only a comment:", command.Printable(err.Error()))
			}
			if len(text) > document.MaxFile {
				fmt.Fprintf(cmd.ErrWriter, "config apply takes at most %d bytes at once, but these are %d: get them kind by kind\n", document.MaxFile, len(text))
			}
			_, err := cmd.Writer.Write(text)
			return errors.Join(bad, err)
		}),
	}
}

// getDocuments returns the documents with some keys and below some folders, sorted. Those that operators have not written
// are returned only if their key is given, or all are wanted. Of files, it returns the good ones also with an error.
func getDocuments(ctx context.Context, d *change.Documents, under []string, all bool) ([]etcd.Stored, error) {
	if slices.Contains(under, "") { // it would list everything
		return nil, document.CheckKey("")
	}
	if len(under) == 0 {
		under = []string{""}
	}
	var docs []etcd.Stored
	var bad error
	for _, u := range under {
		found, err := getUnder(ctx, d, u)
		if err != nil && len(found) == 0 {
			return nil, err
		}
		bad = err // of all files, each time
		others := len(found)
		found = slices.DeleteFunc(found, func(d etcd.Stored) bool {
			return !all && d.Key != u && !change.IsRecordKey(u) && (change.IsRegistered(d) || d.Key == string(fleet.KindDeletions))
		})
		if len(found) == 0 && u != "" {
			return nil, notFound(u, others)
		}
		docs = append(docs, found...)
	}
	slices.SortFunc(docs, func(a, b etcd.Stored) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(docs, func(a, b etcd.Stored) bool { return a.Key == b.Key }), bad
}

// getUnder returns the documents with a key or below a folder, and both keys of a record.
func getUnder(ctx context.Context, d *change.Documents, u string) ([]etcd.Stored, error) {
	found, err := d.List(ctx, u)
	if first, _, _, ok := parseRecordKey(u); err == nil && ok && first == u {
		var held []etcd.Stored
		held, err = d.List(ctx, u+heldSuffix)
		found = append(found, held...)
	}
	return found, err
}

// notFound says why nothing is printed of a key or folder below which so many others are registered.
func notFound(u string, registered int) error {
	folder := strings.TrimSuffix(u, "/") + "/"
	isFolder := document.CheckKey(folder+"x") == nil || document.CheckKey(folder+"x/x") == nil
	switch err := document.CheckKey(u); {
	case change.IsRecordKey(u):
		return fmt.Errorf("there is no record %s", u)
	case registered > 0:
		return fmt.Errorf("no operator has written a document below %s; -all shows %s", u, count(registered, "registration"))
	case isFolder && u == folder:
		return fmt.Errorf("there is no document below %s", u)
	case isFolder && err != nil:
		return fmt.Errorf("%s: not a document; the documents below it are %s", u, folder)
	case err != nil:
		return err
	}
	return fmt.Errorf("there is no document %s", u)
}

// asFile joins documents to a file that config apply takes. Registrations, confirmations and rejected documents become
// comments; rejected are the reasons of the latter.
func asFile(docs []etcd.Stored) (file []byte, rejected []error) {
	damaged := map[string]string{}
	for _, r := range recordsIn(docs, nil) {
		damaged[r.Key] = r.Problem
	}
	for i, d := range docs {
		if i > 0 {
			file = append(file, "---\n"...)
		}
		text, err := document.JoinFile([]document.Raw{{Key: d.Key, Value: d.Value}})
		if err != nil {
			text = fmt.Appendf(nil, "key: %s\n%s", command.Printable(d.Key), d.Value)
		} else {
			err = document.Check(d.Key, d.Value)
		}
		switch {
		case change.IsRecordKey(d.Key) && damaged[d.Key] == "":
			text = comment("Written by a server process, and by no other:", text)
		case change.IsRecordKey(d.Key):
			rejected = append(rejected, fmt.Errorf("%s: %s", d.Key, damaged[d.Key]))
			text = comment("Cannot be read as a whole: "+command.Printable(damaged[d.Key]), text)
		case err != nil:
			rejected = append(rejected, err)
			text = comment("Not accepted: "+command.Printable(err.Error()), text)
		case change.IsRegistered(d):
			text = comment("Registered by a node, for as long as it runs:", text)
		case d.Key == string(fleet.KindDeletions):
			text = comment("Confirms what was deleted until then, and nothing later:", text)
		}
		file = append(file, text...)
	}
	return file, rejected
}

// comment returns text as comment lines. config apply skips a document of comments only.
func comment(reason string, text []byte) []byte {
	out := []byte("# " + reason + "\n")
	for line := range bytes.Lines(text) {
		out = append(out, strings.TrimRight("# "+command.Printable(string(bytes.TrimRight(line, "\r\n"))), " ")+"\n"...)
	}
	return out
}
