package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

func newGet() *cobra.Command {
	var store *store
	var all bool
	cmd := &cobra.Command{
		Use:   "get [KEY | FOLDER/]…",
		Short: "Print documents as they stand in etcd, as a file that config apply takes",
		Long: `Print documents as they stand in etcd, as a file that config apply takes: those of each KEY, or
all below each FOLDER/; without any, all. Left out is what nodes have registered, and what
confirms deletions; with -all it is there as comments. A document that no node accepts is a
comment, too, with the reason. API keys come with their hashes: applied later, such a file makes
those valid again that were revoked since, unless you take the documents keys/ID out.`,
		Example: `  colonnade config get > fleet.yaml
  colonnade config get models/llama-3.1-8b-instruct endpoints/ams/`,
		RunE: func(cmd *cobra.Command, under []string) error {
			if slices.Contains(under, "") { // it would list everything
				return document.CheckKey("")
			}
			var found []listed
			if err := store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) (err error) {
				found, err = listEach(ctx, client, under)
				return err
			}); err != nil {
				return err
			}
			return printDocuments(cmd.OutOrStdout(), cmd.ErrOrStderr(), found, all)
		},
	}
	store = storeFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also what nodes have registered, as comments")
	return cmd
}

// checkUnder says why nothing can stand there. It is asked only where nothing does: whatever stands in the store can be
// got.
func checkUnder(u string) error {
	below := strings.TrimSuffix(u, "/") + "/"
	isFolder := document.CheckKey(below+"x") == nil || document.CheckKey(below+"x/x") == nil
	switch err := document.CheckKey(u); {
	case isFolder && below == u:
		return nil
	case err != nil && isFolder:
		return fmt.Errorf("%s: that is no document; all that are below it are %s", u, below)
	default:
		return err
	}
}

// listed is what etcd has for one argument; under is empty where everything was asked for.
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

// isRegistered says whether a document is a node's or a registrar's own.
func isRegistered(d etcd.Stored) bool {
	return d.Leased || strings.HasPrefix(d.Key, string(fleet.KindServer)+"/") || strings.HasPrefix(d.Key, string(fleet.KindEntry)+"/")
}

// printDocuments writes the documents that were found to out, and to notes what whoever redirects out should know.
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
	text, bad := asFile(wanted)
	_, _ = out.Write(text) // see failUnwritten
	if len(wanted) == 0 {
		fmt.Fprintln(notes, "there are no documents")
	}
	for _, err := range bad {
		fmt.Fprintln(notes, "only a comment:", shown(err.Error()))
	}
	if len(text) > document.MaxFile {
		fmt.Fprintf(notes, "config apply takes at most %d bytes at once, and these are %d: get them kind by kind\n",
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
		return fmt.Errorf("no operator has written a document below %s; -all shows the %s",
			l.under, count(len(l.docs), "registered one"))
	case strings.HasSuffix(l.under, "/"):
		return fmt.Errorf("there is no document below %s", l.under)
	}
	return fmt.Errorf("there is no document %s", l.under)
}

// asFile writes documents as one file that config apply takes. What it must not or would not take is a comment; of
// those that it would not take, the reasons are returned, too.
func asFile(docs []etcd.Stored) (file []byte, bad []error) {
	for _, d := range docs {
		text, err := document.JoinFile([]document.Raw{{Key: d.Key, Value: d.Value}})
		if err == nil {
			err = document.Check(d.Key, d.Value)
		}
		switch {
		case err != nil:
			bad = append(bad, err)
			text = comment("Not accepted: "+shown(err.Error()), d)
		case isRegistered(d):
			text = comment("Registered by a node, and there as long as it is:", d)
		case d.Key == string(fleet.KindDeletions):
			text = comment("Confirms what had been deleted at that time, and nothing later:", d)
		}
		if len(file) > 0 {
			file = append(file, "---\n"...)
		}
		file = append(file, text...)
	}
	return file, bad
}

// comment writes a document so that it is one. What is between two marks and only comments is no document to apply.
func comment(why string, d etcd.Stored) []byte {
	text, err := document.JoinFile([]document.Raw{{Key: d.Key, Value: d.Value}})
	if err != nil {
		text = fmt.Appendf(nil, "key: %s\n%s", shown(d.Key), d.Value)
	}
	out := []byte("# " + why + "\n")
	for line := range bytes.Lines(text) {
		out = append(out, strings.TrimRight("# "+shown(string(bytes.TrimRight(line, "\r\n"))), " ")+"\n"...)
	}
	return out
}
