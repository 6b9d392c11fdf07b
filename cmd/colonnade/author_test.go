package main

import (
	"errors"
	"os/user"
	"strings"
	"testing"
)

// Each change has an author, also in a container without a list of users.
func TestUserInHistory(t *testing.T) {
	f := func(want string, known *user.User, err error, id int) {
		t.Helper()
		if got := systemUser(func() (*user.User, error) { return known, err }, id); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	unknown := errors.New("unknown userid")
	f("alice", &user.User{Username: "alice", Uid: "1000"}, nil, 1000)
	f("uid-1000", &user.User{Uid: "1000"}, nil, 1000)
	f("uid-1000", nil, unknown, 1000)
	f("colonnade", nil, unknown, -1)
}

// The command line that goes into the history has no API key and no password, and is short.
func TestCommandLineInHistory(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		if got := commandLine(args); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f("colonnade config apply fleet.yaml", "config", "apply", "fleet.yaml")
	f("colonnade keys revoke cn_…", "keys", "revoke", "cn_laptop_abcdefghijkl")
	f("colonnade keys create -id=sk-…", "keys", "create", "-id=sk-0123456789")
	f("colonnade config get -etcd http://a:2379,http://…@b:2379", "config", "get", "-etcd", "http://a:2379,http://root:secret@b:2379")
	f("colonnade config get -etcd=http://…@b:2379", "config", "get", "-etcd=http://root:secret@b:2379")
	f("colonnade config get -etcd=…", "config", "get", "-etcd=http://root:se%cret@b:2379")
	f(`colonnade "a\x1b"`, "a\x1b")
	if got := commandLine([]string{strings.Repeat("é", maxCommand)}); len(got) > maxCommand+len("…") || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
