package server_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
)

// A client that connects while there are no file descriptors is accepted later, and open connections are served meanwhile.
func TestAcceptAfterAShortageOfFiles(t *testing.T) {
	lines := make(forwardtest.LogLines, 100)
	s := forwardtest.ServeConfig(t, server.Config{Logger: slog.New(slog.NewTextHandler(lines, nil))})
	there := forwardtest.MustDial(t, s)
	if _, err := there.Ask(); err != nil {
		t.Fatal(err)
	}
	restore := testkit.LimitFiles(t, 1) // for the client's end
	coming := forwardtest.MustDial(t, s)
	if line := forwardtest.Receive(t, "the log", lines); !strings.Contains(line, "too many open files") || !strings.Contains(line, "LimitNOFILE") {
		t.Errorf("logged %q", line)
	}
	time.Sleep(5 * server.AcceptBackoffMin) // Accept tries again meanwhile
	if last, err := there.Ask(); last || err != nil {
		t.Errorf("during the shortage: last %v, %v", last, err)
	}
	restore()
	for _, c := range []*forwardtest.RawClient{coming, there, forwardtest.MustDial(t, s)} {
		if last, err := c.Ask(); last || err != nil {
			t.Errorf("after the shortage: last %v, %v", last, err)
		}
	}
	if len(lines) > 0 {
		t.Errorf("and logged %q", <-lines)
	}
	s.Stop(server.DrainTimings{})
}

// A server can shut down during a shortage of file descriptors.
func TestShutdownInAShortageOfFiles(t *testing.T) {
	lines := make(forwardtest.LogLines, 100)
	s := forwardtest.ServeConfig(t, server.Config{Logger: slog.New(slog.NewTextHandler(lines, nil))})
	testkit.LimitFiles(t, 1)
	forwardtest.MustDial(t, s)
	forwardtest.Receive(t, "the log", lines)
	s.Stop(server.DrainTimings{})
}

// StopAccepting leaves time for TCP handshakes that have begun, even if no connection was accepted for long.
func TestStopAcceptingWaitsForHandshakes(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	p := server.DrainTimings{Quiet: 200 * time.Millisecond}
	time.Sleep(p.Quiet)
	began := time.Now()
	s.StopAccepting(p)
	if took := time.Since(began); took < p.Quiet {
		t.Errorf("the listener was closed after %v", took)
	}
	s.Stop(p)
}
