package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/internal/etcdtest"
	"colonnade/node"
	"colonnade/problems"
	"colonnade/reasons"
)

// keyed is a node that reports fleet keys by their ids, of which the first signs; without any, it is a node of an older version.
func keyed(name string, ids ...string) fakeNode {
	c := node.ConfigState{Node: name}
	if len(ids) > 0 {
		c.FleetKeys = &node.FleetKeyState{Signs: ids[0], Accepts: ids}
	}
	return configured(c)
}

// registerEntry puts the document of an entry whose admin listener is served.
func (n fakeNode) registerEntry(t *testing.T, s *etcdtest.Server, name string) {
	t.Helper()
	put(t, s, map[string]string{"entries/" + name: fmt.Sprintf(`{"address":"127.0.0.1:1","admin":%q,"region":"weur"}`, n.serve(t))})
}

func keyIDs(t *testing.T, path string) []string {
	t.Helper()
	k, err := hop.ReadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	return k.IDs()
}

// In each state of a fleet, the command names the next step and the nodes that have not made it, and writes the file of that step. It never
// prints a key.
func TestRotateFleet(t *testing.T) {
	s := startEtcd(t)
	put(t, s, servable)
	dir := t.TempDir()
	newKey, fleetKey := filepath.Join(dir, "new.key"), filepath.Join(dir, "fleet.key")
	before := hop.RandomKeys()
	content, err := before.FileContent(before.IDs())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fleetKey, content, 0o600); err != nil {
		t.Fatal(err)
	}
	old := before.IDs()[0]
	run(t, "", "keys", "rotate-fleet").fail(t, "no node is registered")
	state := func(entry, colo []string) {
		keyed("edge-1", entry...).registerEntry(t, s, "edge-1")
		keyed("ams-1", colo...).register(t, s, "servers/ams/ams-1")
	}
	rotate := func(args ...string) ran {
		t.Helper()
		r := run(t, "", append([]string{"keys", "rotate-fleet"}, args...)...)
		for _, path := range []string{newKey, fleetKey} {
			content, _ := os.ReadFile(path)
			for key := range bytes.Lines(content) {
				if strings.Contains(r.out+r.notes+fmt.Sprint(r.err), string(bytes.TrimSpace(key))) {
					t.Errorf("a key is printed:\n%s", r.out)
				}
			}
		}
		return r
	}
	both := []string{"-new-key", newKey, "-write", fleetKey}
	state([]string{old}, []string{old})
	rotate().want(t, "all nodes have the same key")
	rotate("-write", fleetKey).fail(t, "-write needs -new-key")
	r := rotate(both...)
	r.want(t, "made a new key in "+newKey, "step 1 of 3", "nodes without it: entries/edge-1, servers/ams/ams-1", fleetKey+" is the file of this step now")
	fresh := keyIDs(t, newKey)[0]
	if info, err := os.Stat(newKey); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the new key's file: %v, %v", info.Mode(), err)
	}
	file := func(want ...string) {
		t.Helper()
		if got := keyIDs(t, fleetKey); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the file has %q, want %q", got, want)
		}
	}
	file(old, fresh)
	state([]string{old}, []string{old, fresh})
	rotate().want(t, "there are 2 keys", "-new-key")
	rotate(both...).want(t, "step 1 of 3", "nodes without it: entries/edge-1\n", "is the file of this step already")
	state([]string{fresh, old}, []string{old})
	refused := []string{"entries/edge-1: signs with the fleet key " + fresh + ", which is not accepted by servers/ams/ams-1", "1 error found"}
	r = rotate(both...)
	r.fail(t, append(refused, "step 1 of 3", "nodes without it: servers/ams/ams-1\n", "is the file of this step already")...)
	r.wantStatus(t, 1)
	r = rotate()
	r.fail(t, append(refused, "give entries/edge-1 the key file of the others")...)
	r.wantStatus(t, 1)
	r = run(t, "", "config", "status")
	r.fail(t, append(refused, "action: give it the key file of the others (-key-file)")...)
	r.wantStatus(t, 1)
	if strings.Contains(r.out, "nodes have different fleet keys") {
		t.Errorf("one fact is said twice:\n%s", r.out)
	}
	state([]string{old}, []string{fresh, old}) // the colo server sends nothing to the entry, which need not accept its key
	if r := rotate(both...); strings.Contains(r.out, "is not accepted by") {
		t.Errorf("the key of a colo server is taken for refused:\n%s", r.out)
	}
	state([]string{old, fresh}, []string{fresh, old})
	rotate(both...).want(t, "step 2 of 3", "nodes without it: entries/edge-1\n")
	file(fresh, old)
	run(t, "", "config", "status").want(t, "nodes have different fleet keys", "rotate-fleet")
	state([]string{fresh, old}, []string{fresh})
	rotate(both...).want(t, "step 3 of 3", "nodes without it: entries/edge-1\n")
	file(fresh)
	state([]string{fresh}, []string{fresh})
	rotate(both...).want(t, "the rotation is complete")
	if out := run(t, "", "config", "status").want(t); strings.Contains(out, "fleet key") {
		t.Errorf("a rotation that is complete is a problem:\n%s", out)
	}
	state([]string{fresh}, []string{"0badc0de"}) // a key that no other node accepts is not needed
	rotate(both...).fail(t, "1 error found", "step 1 of 3", "in this order: "+fresh+"\n", "nodes without it: servers/ams/ams-1\n")
	state([]string{"0badc0de"}, []string{"0badc0de"})
	rotate(both...).fail(t, "no node has a key of it")
	state([]string{"0badc0de"}, []string{fresh, "0badc0de"})
	rotate(both...).fail(t, "there is no key 0badc0de")
}

// One node with a wrong key is one error, which names it, however many others notice.
func TestOneNodeWithAWrongFleetKey(t *testing.T) {
	t.Parallel()
	nodes := func(keys ...string) (all []nodeState) {
		for i, ids := range keys {
			role, document := roleColo, fmt.Sprintf("servers/ams/ams-%d", i)
			if i < 2 {
				role, document = roleEntry, fmt.Sprintf("entries/edge-%d", i)
			}
			k := strings.Fields(ids)
			all = append(all, nodeState{registration: registration{Document: document, Role: role}, Config: &node.ConfigState{FleetKeys: &node.FleetKeyState{Signs: k[0], Accepts: k}}})
		}
		return all
	}
	f := func(want string, keys ...string) {
		t.Helper()
		faults := fleetKeyFaults(nodes(keys...))
		texts := make([]string, len(faults))
		for i := range faults {
			texts[i] = faults[i].String()
		}
		if got := strings.Join(texts, "\n"); got != want {
			t.Errorf("keys %q:\n%s\nwant\n%s", keys, got, want)
		}
	}
	f("", "a", "a", "a", "a")
	f("", "a b", "b a", "a b", "b a")
	f("servers/ams/ams-3: has the fleet key b, and does not accept a of entries/edge-0, entries/edge-1, servers/ams/ams-2: requests between them fail", "a", "a", "a", "b")
	f("servers/ams/ams-3: does not accept the fleet key a of entries/edge-0, entries/edge-1, servers/ams/ams-2: their requests fail there", "a", "a", "a b", "b")
	f("entries/edge-1: signs with the fleet key b, which is not accepted by servers/ams/ams-2, servers/ams/ams-3, servers/ams/ams-4: its requests fail there",
		"a", "b", "a", "a", "a")
	f("servers/ams/ams-3: has the fleet key b, and does not accept a, c of entries/edge-0, entries/edge-1, servers/ams/ams-2, servers/ams/ams-4: requests between them fail\n"+
		"entries/edge-1: signs with the fleet key c, which is not accepted by servers/ams/ams-2, servers/ams/ams-4: its requests fail there", "a", "c", "a", "b", "a")
}

// An entry that no colo believes since the server has a wrong key is the effect of that error, and no other one.
func TestServerWithAWrongFleetKeyAndItsEntries(t *testing.T) {
	t.Parallel()
	s := &fleetState{documentState: newDocumentState(nil, 0)}
	for _, name := range []string{"entries/edge-0", "entries/edge-1", "servers/ams/ams-1"} {
		keys, reported := "a", []problems.Problem{{Kind: reasons.EntryNotBelieved, Severity: problems.SeverityError, Subject: name, Text: name + ": every colo refuses"}}
		role := roleEntry
		if strings.HasPrefix(name, "servers/") {
			keys, role, reported = "b", roleColo, []problems.Problem{}
		}
		s.Nodes = append(s.Nodes, nodeState{registration: registration{Document: name, Role: role},
			Config: &node.ConfigState{Problems: reported, FleetKeys: &node.FleetKeyState{Signs: keys, Accepts: []string{keys}}}})
	}
	all := fleetProblems(s, nil)
	if len(all) != 1 || all[0].Subject != "servers/ams/ams-1" || all[0].Effect != "every request at entries/edge-0, entries/edge-1 gets 502" {
		t.Errorf("%+v", all)
	}
}

// Without an answer of each node, or without the files, nothing is written.
func TestRotateFleetRefusals(t *testing.T) {
	s := startEtcd(t)
	put(t, s, servable)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, mode os.FileMode, ids ...*hop.Keys) *hop.Keys {
		t.Helper()
		all := ids[0]
		for _, k := range ids[1:] {
			all = all.With(k)
		}
		content, err := all.FileContent(all.IDs())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), content, mode); err != nil {
			t.Fatal(err)
		}
		return all
	}
	ours := write("ours", 0o600, hop.RandomKeys())
	write("open", 0o644, hop.RandomKeys())
	write("two", 0o600, hop.RandomKeys(), hop.RandomKeys())
	write("foreign", 0o600, hop.RandomKeys())
	f := func(want, newKey, file string) {
		t.Helper()
		before, _ := os.ReadFile(path(file))
		run(t, "", "keys", "rotate-fleet", "-new-key", path(newKey), "-write", path(file)).fail(t, want)
		if after, _ := os.ReadFile(path(file)); !bytes.Equal(before, after) {
			t.Errorf("%s: the file was changed", want)
		}
	}
	keyed("ams-1", ours.IDs()...).register(t, s, "servers/ams/ams-1")
	f("others can read it", "open", "ours")
	f("-new-key names a file with the new key alone", "two", "ours")
	f("cannot make the new key", "none/new", "ours")
	f("no such file", "new", "absent")
	f("is not the key file of this fleet", "new", "foreign")
	keyed("fra-1").register(t, s, "servers/fra/fra-1")
	f("1 node cannot be asked for the ids of keys: servers/fra/fra-1", "new", "ours")
	bad := node.ConfigState{Node: "fra-1", FleetKeys: &node.FleetKeyState{Signs: ours.IDs()[0], Accepts: ours.IDs(), Problem: "key file x: no fleet key"}}
	configured(bad).register(t, s, "servers/fra/fra-1")
	run(t, "", "config", "status").want(t, "key file x: no fleet key")
}
