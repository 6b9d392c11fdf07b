package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/cmd/internal/command"
)

// counting is a colo server that has granted and refused more each time it is asked.
func counting() fakeNode {
	var asked atomic.Int64
	n := pooled("n", "")
	n.pools = func() string {
		n := asked.Add(1)
		return fmt.Sprintf(`[{"colo":"ams","node":"n","pool":"p","limit":4,"held":4,"granted":%d,"refused":{"busy":%d,"queue_full":%d},"full_seconds":%d,
			"granting":true,"endpoints":[{"id":"e","state":"up","concurrency":4,"held":4}],"queue":{"discipline":"fair","limit":8}}]`, 100*n, 2*n, 50*n, 1000*n)
	}
	return n
}

func TestWatch(t *testing.T) {
	admin := counting().serve(t)
	var out, notes record
	end := background(t, &out, &notes, "status", "-watch", "-admin", admin)
	out.await(t, "refused   100:")
	if err := end(); err != nil {
		t.Errorf("it ended with %v\n%s", err, notes.String())
	}
	if got := out.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "refused   50: queue_full 50\n") || strings.Count(got, "p in ams") < 2 ||
		!strings.Contains(got, "GRANTS  REFUSED") {
		t.Errorf("it printed\n%s", got)
	}
	out, notes = record{}, record{}
	end = background(t, &out, &notes, "status", "-watch", "-json", "-admin", admin)
	out.await(t, "\n")
	if err := end(); err != nil {
		t.Error(err)
	}
	var got fleetState
	if err := json.Unmarshal([]byte(strings.Split(out.String(), "\n")[0]), &got); err != nil || len(got.Nodes) != 1 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestWatchEndsBeforeItHasAState(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := statusCommand{poller: newPoller("", nil, &poolQuery{}), out: io.Discard}
	if err := c.runWatch(ctx); err != nil {
		t.Error(err)
	}
}

func TestRates(t *testing.T) {
	var views []poolView
	began := time.Now()
	f := func(after time.Duration, granted, queueFull, busy uint64, full float64, want string) {
		t.Helper()
		s := &fleetState{Nodes: []nodeState{{answered: began.Add(after)}}}
		page := fmt.Sprintf(`[{"pool":"p","granted":%d,"refused":{"queue_full":%d,"busy":%d},"full_seconds":%f}]`, granted, queueFull, busy, full)
		if err := json.Unmarshal([]byte(page), &s.Nodes[0].Pools); err != nil {
			t.Fatal(err)
		}
		views = poolViews(s, views)
		if got := strings.TrimSpace(views[0].grants + " " + views[0].refusals + views[0].full); got != want {
			t.Errorf("after %v: got %q, want %q", after, got, want)
		}
	}
	f(0, 10, 1, 1, 5, "")
	f(2*time.Second, 30, 4, 1, 6, "10/s 1.5/s, 50% of the time since the last poll")
	f(4*time.Second, 3, 4, 1, 6, "") // restarted
	f(5*time.Second, 4, 4, 2, 60, "1/s 0/s, 100% of the time since the last poll")
	f(5*time.Second, 4, 4, 2, 60, "") // the same answer
}

// On a terminal, a watch draws in place, as much as fits, and leaves the whole last state and a cursor.
func TestWatchOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	var out record
	terminal := pseudo(t, 70, 8, &out)
	end := background(t, terminal, io.Discard, "status", "--watch", "--admin", counting().serve(t))
	out.await(t, "more lines: -pool and -colo show less")
	out.await(t, eraseBelow+cursorHome) // drawn again
	if err := end(); err != nil {
		t.Error(err)
	}
	out.await(t, "\x1b[32mup\x1b[0m")
	got := out.String()
	inPlace, last, _ := strings.Cut(got, shellScreen)
	if !strings.HasPrefix(got, alternateScreen+cursorHome) || strings.Count(inPlace, cursorHome) < 2 {
		t.Errorf("it begins with %q", got[:min(len(got), 200)])
	}
	for _, frame := range strings.Split(inPlace, cursorHome)[1:] {
		if n := strings.Count(frame, "\n"); n > 7 || !strings.HasSuffix(frame, eraseLineEnd+eraseBelow) {
			t.Errorf("%d lines on 8 rows: %q", n+1, frame)
		}
	}
	if !strings.Contains(last, "queue_full") || strings.Contains(last, "more lines") {
		t.Errorf("it leaves %q", last)
	}
}

func TestScreenOfTerminal(t *testing.T) {
	file := pseudo(t, 132, 50, io.Discard)
	f := func(out io.Writer, term, noColor string, want screen) {
		t.Helper()
		t.Setenv("TERM", term)
		t.Setenv("NO_COLOR", noColor)
		got := screenOf(out)
		if got.width != want.width || got.height != want.height || got.redraw != want.redraw || got.colour != want.colour {
			t.Errorf("TERM=%q NO_COLOR=%q: got %+v, want %+v", term, noColor, got, want)
		}
	}
	f(file, "xterm", "", screen{width: 132, height: 50, redraw: true, colour: true})
	f(file, "xterm", "1", screen{width: 132, height: 50, redraw: true})
	f(file, "dumb", "", screen{width: 132, height: 50})
	f(&strings.Builder{}, "xterm", "", screen{})
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	f(null, "xterm", "", screen{})
	if command.File(file) != file {
		t.Error("a file is not found")
	}
}
