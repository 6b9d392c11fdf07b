package main

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"colonnade/worker"
)

// Errors of flags name the flag, its value and what to do.
func TestFlagsOfRegisterAreChecked(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		run(t, "", append([]string{"register"}, args...)...).fail(t, want)
	}
	place := func(args ...string) []string {
		return append([]string{"-colo", "ams", "-url", "127.0.0.1:8000", "-etcd", "http://127.0.0.1:1"}, args...)
	}
	f("flag -colo is missing: the colo that the engine belongs to", "-url", "x:1")
	f("flag -url is missing: the URL at which colo servers reach the engine", "-colo", "ams")
	f(`flag -url ftp://x: cannot use the URL of an engine: "ftp://x": must be a URL`, "-colo", "ams", "-url", "ftp://x")
	f(`flag -colo "a b": a name must begin with`, "-colo", "a b", "-url", "x:1")
	f(`flag -pool "a b": a name must begin with`, place("-pool", "a b")...)
	f(`flag -id "-": a name must begin with`, place("-id", "-")...)
	f(`flag -node "gpu 7": a name must begin with`, place("-node", "gpu 7")...)
	f(`flag -concurrency "0": must be auto or a number from 1 to 10000`, place("-concurrency", "0")...)
	f(`flag -concurrency "many": must be auto or a number`, place("-concurrency", "many")...)
	f(`flag -set "weight": must be FIELD=VALUE, such as weight=2`, place("-set", "weight")...)
	f(`flag -set weight: 0: must be at least 1`, place("-set", "weight=0")...)
	f(`flag -set wieght: unknown field`, place("-set", "wieght=1")...)
	f(`flag -set health.interval: `, place("-set", "health.interval=often")...)
	f(`flag -set "url=x": url is not set here: use the flag -url`, place("-set", "url=x")...)
	f(`flag -set "state=active": state is not set here: the command writes it`, place("-set", "state=active")...)
	f(`flag -set "weight=2": weight is set twice`, place("-set", "weight=1", "-set", "weight=2")...)
	f(`invalid value "-1s" for flag -drain: must not be negative`, place("-drain", "-1s")...)
	f(`invalid value "on" for flag -gpus: must be auto, all, off, or names such as 0,1 or GPU-… or MIG-…`, place("-gpus", "on")...)
	f("not defined: -listen; flags of the command to run stand after --, as in colonnade register [options] -- COMMAND -flag; see colonnade register -h",
		place("colonnade", "engine", "-listen", "127.0.0.1:8000")...)
	f("-server and -etcd exclude each other", place("-server", "http://127.0.0.1:1", "-token-file", "x")...)
	f("flag -token-file is missing: the file with the token for -server", "-colo", "ams", "-url", "x:1", "-server", "http://127.0.0.1:1")
	f("flag -token-file x is for -server, which is missing", "-colo", "ams", "-url", "x:1", "-token-file", "x")
	f("cannot listen (flag -admin 203.0.113.1:9): ", place("-admin", "203.0.113.1:9")...)
}

func TestFieldsOfRegister(t *testing.T) {
	t.Setenv("COLONNADE_CREDENTIAL_X", "secret")
	r := registering{notes: io.Discard, concurrency: "7", set: []string{
		"weight=2", "health.path=/ready", "health.interval=2s", "names.org/model.v1=a,b=c", `adapters=["a","b"]`, "external=true",
		"credential=env:COLONNADE_CREDENTIAL_X",
	}}
	r.c = worker.Config{Colo: "ams", URL: "https://[2001:db8::7]/engine"}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"weight": 2.0, "health": map[string]any{"path": "/ready", "interval": "2s"}, "names": map[string]any{"org/model.v1": "a,b=c"},
		"adapters": []any{"a", "b"}, "external": true, "credential": "env:COLONNADE_CREDENTIAL_X", "concurrency": 7,
	}
	if !reflect.DeepEqual(r.c.Fields, want) || r.c.Key != "secret" {
		t.Errorf("%v, key %s", r.c.Fields, r.c.Key)
	}
	if r.c.ID != "ip6-2001:db8::7-443/engine" || !strings.HasSuffix(r.c.Node, "-443") || r.c.Node == "-443" || r.c.HungAfter != 0 {
		t.Errorf("%+v", r.c)
	}
}

// An engine that only its own machine reaches is of no use to a fleet on several.
func TestRegisterWarnsOfLoopback(t *testing.T) {
	f := func(url, etcd string, want bool) {
		t.Helper()
		var notes strings.Builder
		r := registering{notes: &notes, c: worker.Config{Colo: "ams", URL: url, HungAfter: time.Minute}}
		r.store.endpoints = etcd
		if err := r.complete(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(notes.String(), fmt.Sprintf("colonnade | only colo servers on this machine reach %s", url)); got != want {
			t.Errorf("%s, %s: %s", url, etcd, notes.String())
		}
	}
	f("127.0.0.1:8000", "http://10.0.0.1:2379", true)
	f("http://localhost:8000", "http://127.0.0.1:2379,http://10.0.0.1:2379", true)
	f("http://[::1]:8000", "http://127.0.0.1:2379", false)
	f("http://10.0.0.7:8000", "http://10.0.0.1:2379", false)
}
