package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

// confirmPatience is how long nodes get to follow a confirmation; they need milliseconds, or a few seconds when they
// have just lost their connection to etcd.
const confirmPatience = 10 * time.Second

func newConfirm() *cobra.Command {
	var store *store
	cmd := &cobra.Command{
		Use:   "confirm-deletions",
		Short: "Confirm that the deletions which nodes hold back are meant",
		Long: `Confirm that deletions are meant which nodes hold back, because there were too many at once. It
shows which these are, writes the document "deletions" with the revision that etcd is at now, and
tells which nodes hold deletions back after that. It covers all that was deleted up to now, and
nothing later.`,
		Example: `  colonnade config status
  colonnade config confirm-deletions`,
		Args: noMore,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var still []*heldBack
			err := store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) (err error) {
				still, err = confirmHeld(ctx, client, cmd.OutOrStdout())
				return err
			})
			if err == nil && len(still) > 0 {
				err = errors.New("some nodes hold deletions back still: see colonnade config status")
			}
			return err
		},
	}
	store = storeFlag(cmd)
	return cmd
}

// confirmHeld confirms, and returns what is held back nevertheless.
func confirmHeld(ctx context.Context, client *etcd.Client, out io.Writer) ([]*heldBack, error) {
	docs, _, err := etcd.List(ctx, client, node.Prefix, "")
	if err != nil {
		return nil, err
	}
	nodes := allNodes(docs)
	askNodes(ctx, nodes)
	before := heldBy(nodes)
	for _, h := range before {
		fmt.Fprintln(out, wrapped(shown(h.text()), "  "))
	}
	unknown := unknownNodes(nodes)
	for _, text := range unknown {
		fmt.Fprintln(out, wrapped(shown(text), "  "))
	}
	if len(before) == 0 {
		fmt.Fprintln(out, "no node that can be asked holds deletions back")
	}
	revision, err := confirm(ctx, client)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "confirmed what was deleted up to revision %d\n", revision)
	if len(before) == 0 {
		return nil, nil
	}
	after := awaitRelease(ctx, nodes)
	for _, h := range after {
		fmt.Fprintln(out, wrapped("still: "+shown(h.text()), "  "))
	}
	// A node that held something back, and does not answer now, may do so still.
	lost := unknownNodes(nodes)
	for _, text := range lost {
		if !slices.Contains(unknown, text) {
			fmt.Fprintln(out, wrapped(shown("now "+text), "  "))
		}
	}
	if len(after) == 0 && len(lost) == 0 {
		fmt.Fprintln(out, "no node holds deletions back any more")
	} else if len(after) == 0 {
		fmt.Fprintln(out, "no node that can be asked holds deletions back any more")
	}
	return after, nil
}

// unknownNodes says which nodes could not be asked, and why.
func unknownNodes(nodes []nodeStatus) []string {
	var texts []string
	for _, n := range nodes {
		if n.Config == nil {
			texts = append(texts, n.Node+" "+n.unasked())
		}
	}
	return texts
}

// confirm writes that all deletions up to now are meant, and returns the revision that this covers.
func confirm(ctx context.Context, client *etcd.Client) (int64, error) {
	key := string(fleet.KindDeletions)
	_, revision, err := etcd.List(ctx, client, node.Prefix, key)
	if err != nil {
		return 0, err
	}
	value := fmt.Appendf(nil, "confirmed: %d\n", revision)
	_, err = etcd.Apply(ctx, client, node.Prefix, []document.Raw{{Key: key, Value: value}})
	return revision, err
}

// awaitRelease waits until no node holds anything back, for a while, and returns what is held back then.
func awaitRelease(ctx context.Context, nodes []nodeStatus) []*heldBack {
	for end := time.Now().Add(confirmPatience); ; {
		askNodes(ctx, nodes)
		held := heldBy(nodes)
		if len(held) == 0 || time.Now().After(end) || !pause(ctx, 100*time.Millisecond) {
			return held
		}
	}
}
