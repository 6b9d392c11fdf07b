package kvevents_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"colonnade/discovery/engines/kvevents"
)

// pythonWithZMQ returns a Python that has pyzmq and msgspec: .ci/run installs one in var/zmq.
func pythonWithZMQ(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"../../../var/zmq/bin/python", "python3"} {
		if exec.Command(python, "-c", "import zmq, msgspec").Run() == nil {
			return python
		}
	}
	t.Skip("needs pyzmq: python3 -m venv var/zmq && var/zmq/bin/pip install pyzmq msgspec")
	return ""
}

// TestFollowLibzmq follows a publisher by libzmq and msgspec, as engines have it, with a topic and heartbeats.
func TestFollowLibzmq(t *testing.T) {
	publisher := exec.Command(pythonWithZMQ(t), "testdata/publisher.py")
	publisher.Stderr = os.Stderr
	in, err := publisher.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := publisher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := publisher.Wait(); err != nil {
			t.Error(err)
		}
	})
	say := func(commands ...string) {
		t.Helper()
		if _, err := fmt.Fprintln(in, strings.Join(commands, "\n")); err != nil {
			t.Fatal(err)
		}
	}
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	f := follow(t, "127.0.0.1:"+strings.TrimSpace(port))
	say("wait", "list store 10", "map store 1000")
	await(t, f, "the blocks of both encodings", func(s kvevents.State) bool { return s.Known && s.Tokens == 1010*16 && !s.Evicting && s.Gaps == 0 })
	say("list remove 4", "map remove 6")
	await(t, f, "fewer blocks", func(s kvevents.State) bool { return s.Known && s.Tokens == 1000*16 && s.Evicting })
	say("map clear", "list store 1", "list clear", "map store 2")
	await(t, f, "an empty cache", func(s kvevents.State) bool {
		return s.Known && s.Tokens == 2*16 && !s.Evicting && s.Clears == 2 && s.Gaps == 0
	})
}
