package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
)

const (
	// manyKeys is how many keys, named at once, may be a slip: a script that names the wrong ones. Fewer are revoked at once, since a key
	// that was leaked must not stay valid because it was the last one.
	manyKeys = 10
	// manyKeysLeft is how many keys must be left so that nodes hold back none that this command and a few others before it have revoked.
	manyKeysLeft = 100
)

// revocation is one run of keys revoke.
type revocation struct {
	documents  *change.Documents
	list       apiKeyList
	out, notes io.Writer
	confirmed  bool
}

func newKeysRevoke() *cli.Command {
	var store store
	var confirmed bool
	return &cli.Command{
		Name: "revoke", Usage: "Revoke API keys, by their ids", ArgsUsage: "ID…", ArgValidator: command.RequireArgs("at least one ID"),
		Flags: []cli.Flag{
			store.etcdFlag(), store.configFlag(),
			&cli.BoolFlag{Name: "confirm", Destination: &confirmed, Usage: "confirm the revocation in the same step, however many keys it is"},
		},
		Description: `Deletes the documents of the keys. Nodes refuse the keys within seconds; running requests are
not ended. If one of the ids is unknown, none is revoked.

Nodes hold deletions back that look like a mistake, see config delete. Fewer than ten keys are
revoked at once nevertheless: the command confirms that in the same step, unless nodes hold other
deletions back or cannot be asked. For more keys, use -confirm.

Examples:
  colonnade keys revoke laptop
  colonnade keys revoke laptop -config conf`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			if confirmed && d.Client == nil {
				return errors.New("-confirm is for documents in etcd: from files, documents are deleted at once")
			}
			list, err := listAPIKeys(ctx, d)
			if err != nil {
				return err
			}
			keys, err := list.documentKeys(cmd.Args().Slice())
			if err != nil {
				return err
			}
			r := revocation{documents: d, list: list, out: cmd.Writer, notes: cmd.ErrWriter, confirmed: confirmed}
			return r.run(ctx, keys)
		}),
	}
}

func (r *revocation) run(ctx context.Context, keys []string) error {
	if r.documents.Client != nil {
		if err := r.prepare(ctx, keys); err != nil {
			return err
		}
	}
	found, _, err := r.documents.Delete(ctx, keys, r.confirmed)
	for _, key := range keys {
		at := slices.IndexFunc(found, func(one change.Deleted) bool { return one.Key == key })
		if at >= 0 {
			fmt.Fprintln(r.out, "revoked", r.list.describe(key)+command.Printable(found[at].Where))
		} else if err == nil {
			fmt.Fprintln(r.out, r.list.describe(key), "was revoked by another command")
		}
	}
	return err
}

// prepare decides whether the revocation is confirmed in the same step, and says if nodes will hold it back.
func (r *revocation) prepare(ctx context.Context, keys []string) error {
	if r.confirmed {
		return checkHeld(ctx, r.documents.Client, keys, r.notes)
	}
	if len(keys) < manyKeys && len(r.list.docs)-len(keys) < manyKeysLeft {
		none, err := noneHeld(ctx, r.documents.Client, keys)
		if err != nil {
			return err
		}
		r.confirmed = none
	}
	if !r.confirmed {
		fmt.Fprint(r.out, heldBackNote(r.list.docs, keys))
	}
	return nil
}

// noneHeld reports whether all nodes have said that they hold back no other deletions than those of some keys.
func noneHeld(ctx context.Context, client *etcd.Client, keys []string) (bool, error) {
	p := newPoller("", client, nil)
	defer p.close()
	s, err := p.poll(ctx)
	if err != nil {
		return false, err
	}
	silent := slices.ContainsFunc(s.Nodes, func(n nodeState) bool { return n.Config == nil })
	other := slices.ContainsFunc(heldBy(s.Nodes).keys, func(key string) bool { return !slices.Contains(keys, key) })
	return !silent && !other, nil
}
