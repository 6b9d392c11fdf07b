package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/forwarding/hop"
	"colonnade/internal/atomicfile"
	"colonnade/node"
)

// keyFiles are the files of a rotation, both on the operator's machine.
type keyFiles struct {
	newKey string // the new key alone; made if it does not exist; empty = none was named
	write  string // the fleet's key file, which becomes that of the step; empty = none is written
}

func newKeysRotateFleet() *cli.Command {
	var store store
	var admin string
	var files keyFiles
	return &cli.Command{
		Name: "rotate-fleet", Usage: "Show the fleet keys of each node, and the next step of a rotation",
		Flags: []cli.Flag{store.etcdFlag(), adminFlag(&admin),
			&cli.StringFlag{Name: "new-key", Destination: &files.newKey,
				Usage: "`FILE` with the new key alone; if it does not exist, a key is made in it, with mode 0600"},
			&cli.StringFlag{Name: "write", Destination: &files.write,
				Usage: "`FILE` with the fleet's keys, which is changed to what the next step needs; requires -new-key"},
		},
		Description: `Asks every registered node which keys it has. Keys have ids: the keys themselves are never
printed, and nothing is written to etcd. A node signs with the first key of its -key-file,
accepts all, and reads a changed file within two seconds. So a rotation has three steps, and
no request fails if every node has made one before any begins the next:

  1. the new key last:  every node accepts both
  2. the new key first: every node signs with the new one
  3. the new key alone: no node accepts the old one

Run the command with -new-key until the rotation is complete. It names the next step, and the
nodes that have not made it. With -write, it also makes the file of that step: copy it to the
-key-file of these nodes. Writes nothing if a node cannot be asked.

The exit status is 0 if each node accepts the keys with which the others sign, whether the
rotation is complete or not; 1 if one does not, so that requests fail now, or if the next step
is not known; and 2 if etcd does not answer, or the command line is wrong.

Examples:
  colonnade keys rotate-fleet
  colonnade keys rotate-fleet -new-key new.key
  colonnade keys rotate-fleet -new-key new.key -write fleet.key`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if files.write != "" && files.newKey == "" {
				return command.WithStatus(command.StatusUnknown, errors.New("-write needs -new-key: the file of the new key"))
			}
			p, err := store.poller(admin, nil)
			if err != nil {
				return command.WithStatus(command.StatusUnknown, err)
			}
			defer p.close()
			ctx, cancel := context.WithTimeout(ctx, storeTimeout)
			defer cancel()
			s, err := p.poll(ctx)
			if err != nil {
				return command.WithStatus(command.StatusUnknown, err)
			}
			return rotateFleet(cmd, s.Nodes, files)
		},
	}
}

// rotateFleet shows the state of a rotation, and writes the file of the next step.
func rotateFleet(cmd *cli.Command, nodes []nodeState, files keyFiles) error {
	if err := show(cmd.Writer, func(out *screen) { drawFleetKeys(out, nodes) }); err != nil {
		return err
	}
	faults := fleetKeyFaults(nodes)
	for i := range faults {
		if err := say(cmd.Writer, "error: "+faults[i].String()); err != nil {
			return err
		}
	}
	var unasked []string
	for i := range nodes {
		if fleetKeysOf(&nodes[i]) == nil {
			unasked = append(unasked, nodes[i].name())
		}
	}
	switch {
	case len(nodes) == 0:
		return errors.New("no node is registered")
	case len(unasked) > 0:
		return fmt.Errorf("%s cannot be asked for the ids of keys: %s; the next step is not known until each can: start or update these nodes, or wait until their registrations have expired",
			count(len(unasked), "node"), firstOf(unasked))
	case files.newKey == "":
		fmt.Fprintln(cmd.Writer)
		return cmp.Or(say(cmd.Writer, withoutNewKey(nodes, faults)), faultsFound(faults))
	}
	newKey, err := files.openNewKey(cmd)
	if err != nil {
		return err
	}
	var known *hop.Keys
	var ids []string
	if files.write != "" {
		if known, err = files.readWritten(nodes); err != nil {
			return err
		}
		ids = known.IDs()
	}
	step := newRotationStep(nodes, newKey.IDs()[0], ids)
	fmt.Fprintf(cmd.Writer, "\nnew key %s, in %s\n%s\n", step.newKey, files.newKey, step)
	if known != nil && step.number > 0 {
		if err := files.writeStep(cmd, known.With(newKey), step); err != nil {
			return err
		}
	}
	return faultsFound(faults)
}

// faultsFound returns an error if nodes refuse the requests of others now, as config status does.
func faultsFound(faults []fleetKeyFault) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%s found: requests between nodes fail until each has a key file with the right keys", count(len(faults), "error"))
}

// fleetKeysOf returns the keys of a node, or nil if they are not known.
func fleetKeysOf(n *nodeState) *node.FleetKeyState {
	if n.Config == nil || n.Config.FleetKeys == nil {
		return nil
	}
	return n.Config.FleetKeys
}

func drawFleetKeys(out *screen, nodes []nodeState) {
	var rows [][]any
	for i := range nodes {
		n := &nodes[i]
		signs, accepts, problem := "?", "?", n.Error
		if k := fleetKeysOf(n); k != nil {
			signs, accepts, problem = k.Signs, strings.Join(k.Accepts, ", "), k.Problem
		} else if problem == "" {
			problem = "it reports no keys: a node of an older version"
		}
		rows = append(rows, []any{n.Node, strings.TrimSpace(n.Role + " " + n.Place), signs, accepts, problem})
	}
	out.table("", []string{"~NODE", "~ROLE", "SIGNS", "~ACCEPTS", "~PROBLEM"}, rows)
}

// withoutNewKey says what can be said about a fleet without knowing which key is the new one.
func withoutNewKey(nodes []nodeState, faults []fleetKeyFault) string {
	var ids []string
	for i := range nodes {
		ids = append(ids, nodes[i].Config.FleetKeys.Accepts...)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 1 {
		return "all nodes have the same key; to replace it, run: colonnade keys rotate-fleet -new-key new.key"
	}
	if len(faults) > 0 {
		var wrong []string
		for i := range faults {
			wrong = append(wrong, faults[i].node)
		}
		return fmt.Sprintf("there are %d keys: give %s the key file of the others; or if a rotation has begun, name the file of its new key with -new-key, to see the next step",
			len(ids), firstOf(wrong))
	}
	return fmt.Sprintf("there are %d keys, and each node accepts those with which the others sign: to complete the rotation, name the file of its new key with -new-key", len(ids))
}

// openNewKey reads the new key, or makes it.
func (f keyFiles) openNewKey(cmd *cli.Command) (*hop.Keys, error) {
	if _, err := os.Lstat(f.newKey); errors.Is(err, os.ErrNotExist) {
		made := hop.RandomKeys()
		content, err := made.FileContent(made.IDs())
		if err == nil {
			err = createSecret(f.newKey, content)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot make the new key: %w", err)
		}
		fmt.Fprintf(cmd.ErrWriter, "made a new key in %s\n", f.newKey)
		return made, nil
	}
	k, err := hop.ReadKeys(f.newKey)
	if err == nil && len(k.IDs()) != 1 {
		err = fmt.Errorf("key file %s has %d keys: -new-key names a file with the new key alone", f.newKey, len(k.IDs()))
	}
	return k, err
}

// createSecret writes a file that does not exist yet, and that only its owner may read.
func createSecret(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return cmp.Or(err, file.Sync(), file.Close())
}

// readWritten reads the fleet's key file, which must be that of these nodes.
func (f keyFiles) readWritten(nodes []nodeState) (*hop.Keys, error) {
	known, err := hop.ReadKeys(f.write)
	if err != nil {
		return nil, fmt.Errorf("flag -write: %w", err)
	}
	info, err := os.Stat(f.write)
	if err != nil {
		return nil, fmt.Errorf("flag -write: %w", err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("flag -write: %s belongs to another user, who could not read a new file of yours: name a copy, and install it as that user", f.write)
	}
	isOurs := func(n nodeState) bool {
		return slices.ContainsFunc(n.Config.FleetKeys.Accepts, func(id string) bool { return slices.Contains(known.IDs(), id) })
	}
	if !slices.ContainsFunc(nodes, isOurs) {
		return nil, fmt.Errorf("flag -write: %s is not the key file of this fleet: no node has a key of it", f.write)
	}
	return known, nil
}

// writeStep changes the fleet's key file to that of a step. keys has the keys of both files.
func (f keyFiles) writeStep(cmd *cli.Command, keys *hop.Keys, step rotationStep) error {
	content, err := keys.FileContent(step.file)
	if err != nil {
		return fmt.Errorf("flag -write: %s: %w, with which nodes sign", f.write, err)
	}
	if before, err := hop.ReadKeys(f.write); err == nil && slices.Equal(before.IDs(), step.file) {
		fmt.Fprintf(cmd.Writer, "%s is the file of this step already\n", f.write)
		return nil
	}
	if err := atomicfile.Write(f.write, content, 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", f.write, err)
	}
	fmt.Fprintf(cmd.Writer, "%s is the file of this step now\n", f.write)
	return nil
}
