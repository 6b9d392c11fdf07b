package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
	"colonnade/node"
)

// confirmTimeout is how long nodes get to apply a confirmation. They need milliseconds, or a few seconds after they have
// lost their connection to etcd.
const confirmTimeout = 10 * time.Second

func newConfirm() *cli.Command {
	var store store
	return &cli.Command{
		Name: "confirm-deletions", Usage: "Confirm the deletions that nodes hold back",
		Flags: []cli.Flag{store.etcdFlag()},
		Description: `Nodes hold back deletions that look like a mistake: many at once, or the last document of a kind;
see config delete. The command shows them, writes the document "deletions" with the current
revision of etcd, and shows which nodes still hold deletions back. It confirms what was deleted
until then, and nothing later. If the deletions are a mistake, apply the documents again instead.

Examples:
  colonnade config confirm-deletions`,
		Action: store.etcdAction(func(ctx context.Context, cmd *cli.Command, client *etcd.Client) error {
			return confirmHeld(ctx, &change.Documents{Client: client, Author: authorOf(cmd)}, cmd.Writer)
		}),
	}
}

// confirmHeld confirms all deletions. It is an error if nodes hold some back nevertheless.
func confirmHeld(ctx context.Context, d *change.Documents, out io.Writer) error {
	p := newPoller("", d.Client, nil)
	defer p.close()
	s, err := p.poll(ctx)
	if err != nil {
		return err
	}
	before := heldBy(s.Nodes)
	reportUnreachable(out, s.Nodes)
	if len(before.keys) > 0 {
		fmt.Fprintln(out, command.Printable(before.String()))
	} else {
		fmt.Fprintln(out, "no reachable node holds deletions back")
	}
	if err := confirm(ctx, d, out); err != nil || len(before.keys) == 0 {
		return err
	}
	if s, err = awaitRelease(ctx, p); err != nil {
		return err
	}
	if after := heldBy(s.Nodes); len(after.keys) > 0 {
		return fmt.Errorf("still %s; see colonnade config status", after)
	}
	if n := reportUnreachable(out, s.Nodes); n > 0 {
		fmt.Fprintf(out, "no reachable node holds deletions back any more; not asked: %s\n", count(n, "node"))
	} else {
		fmt.Fprintln(out, "no node holds deletions back any more")
	}
	return nil
}

// reportUnreachable prints which nodes could not be asked, since they may hold something back, and returns their number.
func reportUnreachable(out io.Writer, nodes []nodeState) (unreachable int) {
	for _, n := range nodes {
		if n.Config == nil {
			unreachable++
			fmt.Fprintln(out, command.Printable(n.Node+" "+n.unreachable()))
		}
	}
	return unreachable
}

// confirm writes that all deletions up to now are intended.
func confirm(ctx context.Context, d *change.Documents, out io.Writer) error {
	key := string(fleet.KindDeletions)
	_, revision, err := etcd.List(ctx, d.Client, node.Prefix, key)
	if err != nil {
		return err
	}
	value := fmt.Appendf(nil, "confirmed: %d\n", revision)
	if _, err = d.Writer().Apply(ctx, []document.Raw{{Key: key, Value: value}}); err != nil {
		return err
	}
	fmt.Fprintf(out, "confirmed all deletions up to revision %d\n", revision)
	return nil
}

// awaitRelease polls until no node holds anything back, or until confirmTimeout has passed or ctx is done, and returns the
// last state.
func awaitRelease(ctx context.Context, p *poller) (last *fleetState, err error) {
	for end := time.Now().Add(confirmTimeout); ; {
		s, err := p.poll(ctx)
		switch {
		case err != nil && last != nil:
			return last, nil // interrupted
		case err != nil:
			return nil, err
		case len(heldBy(s.Nodes).keys) == 0, time.Now().After(end), !ctxtime.Sleep(ctx, 100*time.Millisecond):
			return s, nil
		}
		last = s
	}
}
