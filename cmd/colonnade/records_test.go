package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"colonnade/homes"
	"colonnade/internal/etcdtest"
	"colonnade/node"
)

// putRecord puts the record of a process of ams-2 that owns two engines and holds three requests on a third, and returns its key.
func putRecord(t *testing.T, s *etcdtest.Server, boot, address string) (key string) {
	t.Helper()
	r := homes.Record{
		Process: homes.Process{Node: "ams-2", Boot: boot}, Put: 7, Address: address,
		Owns: map[string]int{"http://h:1": 0, "http://h:2": 8}, Held: map[string]int{"http://h:3": 3},
	}
	owns, held := r.Encode()
	key = "owners/ams/ams-2/" + boot
	put(t, s, map[string]string{key: string(owns), key + "/held": string(held)})
	return key
}

func TestGetRecords(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"models/a": "pool: p\n", "owners/ams/ams-2/damaged": `{"version": 9, "owns": {"http://h:4": 1}}` + "\x1b"})
	key := putRecord(t, s, "boot", "10.0.0.2:8443")
	both := []string{"# Written by a server process, and by no other:\n# key: " + key + "\n", "# address: 10.0.0.2:8443", "# key: " + key + "/held\n"}
	out := run(t, "", "config", "get", key).want(t, both...)
	if strings.Contains(out, "damaged") {
		t.Errorf("another record is printed:\n%s", out)
	}
	run(t, "", "config", "get", key+"/held").want(t, "# key: "+key+"/held\n")
	all := run(t, "", "config", "get", "owners/").want(t, append(both, "# Cannot be read as a whole: owns: ", "held: the key is missing", "only a comment: owners/ams/ams-2/damaged: ")...)
	if strings.Contains(all, "\x1b") {
		t.Errorf("what is in etcd reaches the terminal as it is: %q", all)
	}
	run(t, all, "config", "apply", "-").fail(t, "there are no documents in it")
	if out := run(t, "", "config", "get").want(t, "key: models/a\n"); strings.Contains(out, "owners/") {
		t.Errorf("records are printed that were not asked for:\n%s", out)
	}
	run(t, "", "config", "get", "-all").want(t, both...)
	run(t, "", "config", "get", "owners/fra/").fail(t, "there is no record owners/fra/")
	run(t, "", "config", "get", "owners/ams/ams-2/none").fail(t, "there is no record owners/ams/ams-2/none")
}

// Records are written by server processes only.
func TestRecordsAreNotApplied(t *testing.T) {
	startEtcd(t)
	const refused = "owners/ams/ams-2/x: not a document, but the record of a colo server's process, which alone writes it"
	run(t, "key: owners/ams/ams-2/x\nversion: 1\n", "config", "validate", "-").fail(t, refused)
	run(t, "key: owners/ams/ams-2/x\nversion: 1\n", "config", "apply", "-").fail(t, refused)
}

func TestConfigStatusNamesRecords(t *testing.T) {
	s := startEtcd(t)
	live, orphan := putRecord(t, s, "x", "127.0.0.1:1"), putRecord(t, s, "gone", "127.0.0.1:1") // x is the boot of registered nodes
	put(t, s, map[string]string{"owners/ams/ams-2/bad": "{", "owners/ams/ams-2/bad/held": "{}", "owners/ams": "x",
		"models/m": "pool: p\n", "colos/ams": "{}", "endpoints/ams/e": "url: http://h:1\npool: p\n"})
	n := configured(node.ConfigState{Node: "ams-2", WrittenOff: 2, Records: []node.RecordProblem{{Key: "owners/ams/ams-2/bad", Problem: "x"}, {Key: "owners/ams/ams-2/seen", Problem: "too large"}}})
	n.register(t, s, "servers/ams/ams-2")
	r := run(t, "", "config", "status")
	r.fail(t, "4 records of server processes, 3 of them not registered",
		"owners/ams/ams-2/bad: cannot be read as a whole: owns: ", "run: colonnade config delete owners/ams/ams-2/bad",
		"owners/ams: cannot be read as a whole: the key of a record is owners/<colo>/<node>/<boot>",
		"owners/ams/ams-2/seen: ams-2 cannot read it as a whole: too large",
		orphan+": its process is not registered", "the 2 engines that it owns and the 3 requests that it holds on others",
		"servers/ams/ams-2: has deleted 2 records of processes that were silent", "3 errors found")
	if strings.Contains(r.out, live+": ") || strings.Contains(r.out, "unknown kind") {
		t.Errorf("a good record is reported:\n%s", r.out)
	}
	var state fleetState
	if err := json.Unmarshal([]byte(run(t, "", "config", "status", "-json").out), &state); err != nil || len(state.Records) != 4 {
		t.Fatalf("%v, %+v", err, state.Records)
	}
	if got := state.Records[3]; got.Key != live || got.Process != "ams-2/x" || got.Owns != 2 || got.Held != 3 || !got.Registered || got.Problem != "" {
		t.Errorf("-json has %+v", got)
	}
	if state.Documents["owners"] != 0 {
		t.Errorf("records are counted as documents: %v", state.Documents)
	}
}

// A record is deleted only if its process has ended, and with -force if it does not answer.
func TestDeleteRecord(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"pools/p": "{}", "owners/ams": "by hand"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	there := func(key string) bool { return stored(t, s, key) != "" && stored(t, s, key+"/held") != "" }
	refused := func(key, want string, force bool) {
		t.Helper()
		args := []string{"config", "delete", "pools/p", key}
		if force {
			args = append(args[:2:2], "-force", "pools/p", key)
		}
		run(t, "", args...).fail(t, key+": ", want, "nothing was deleted")
		if !there(key) || stored(t, s, "pools/p") == "" {
			t.Errorf("%s, or the document beside it, was deleted", key)
		}
	}
	live, answers, closed := putRecord(t, s, "x", "127.0.0.1:1"), putRecord(t, s, "answers", listener.Addr().String()), putRecord(t, s, "closed", "127.0.0.1:2")
	succeeded, lost := putRecord(t, s, "succeeded", "127.0.0.1:1"), putRecord(t, s, "lost", "")
	put(t, s, map[string]string{"servers/ams/ams-2": registered("127.0.0.1:1")}) // its boot is x
	for _, force := range []bool{false, true} {
		refused(live, "its process is registered, and keeps the record itself: stop that server instead", force)
		refused(answers, "a process answers at its address "+listener.Addr().String(), force)
	}
	const risk = "If it still runs, other servers then grant the slots of the 2 engines that it owns"
	refused(closed, "its address, 127.0.0.1:2, refuses connections here, but it is that of another machine unless", false)
	refused(closed, risk, false)
	refused(succeeded, "at its address, 127.0.0.1:1, now answers ams-2/x", false)
	refused(lost, "the record has no address", false)
	run(t, "", "config", "delete", "-force", closed, succeeded+"/held", lost).want(t, "deleted "+closed+"\n", "deleted "+succeeded+"\n", "deleted "+lost+"\n")
	for _, key := range []string{closed, succeeded, lost} {
		if stored(t, s, key)+stored(t, s, key+"/held") != "" {
			t.Errorf("%s is still there", key)
		}
	}
	run(t, "", "config", "delete", "owners/ams", closed).fail(t, "nothing was deleted: not there: "+closed)
	run(t, "", "config", "delete", "-ignore-missing", "owners/ams", closed).want(t, "deleted owners/ams\n", closed+" does not exist")
	if !there(live) || !there(answers) {
		t.Error("other records were deleted than those that were named")
	}
}

// The address of a process that has ended refuses connections. One that does not answer, or is that of each machine, proves nothing.
func TestDoubtAfterDial(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	f := func(address string, err error, want string) {
		t.Helper()
		if got := fmt.Sprint(doubtAfterDial(address, err)); !strings.Contains(got, want) {
			t.Errorf("doubtAfterDial(%s, %v) = %s, want %s", address, err, got, want)
		}
	}
	f("10.0.0.2:8443", refused, "<nil>")
	f("gpu-7.example.com:8443", refused, "<nil>")
	f("127.0.0.1:8443", refused, "that of another machine")
	f("localhost:8443", refused, "that of another machine")
	f("[::]:8443", refused, "that of another machine")
	f("10.0.0.2:8443", nil, "a process answers at its address 10.0.0.2:8443")
	f("10.0.0.2:8443", os.ErrDeadlineExceeded, "cannot be asked at its address")
	f("10.0.0.2:8443", errors.New("no route to host"), "cannot be asked at its address: no route to host")
}
