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

// Whoever comes while there is no file for a further connection is let in later, and those that are there are served.
func TestAcceptOutlastsAShortageOfFiles(t *testing.T) {
	said := make(forwardtest.LogLines, 100)
	s := forwardtest.ServeConfig(t, server.Config{Logger: slog.New(slog.NewTextHandler(said, nil))})
	there := forwardtest.MustDial(t, s)
	if _, err := there.Ask(); err != nil {
		t.Fatal(err)
	}
	restore := testkit.LimitFiles(t, 1) // for the client's end
	coming := forwardtest.MustDial(t, s)
	if line := forwardtest.Receive(t, "the log", said); !strings.Contains(line, "too many open files") || !strings.Contains(line, "LimitNOFILE") {
		t.Errorf("logged %q", line)
	}
	time.Sleep(5 * server.FirstAcceptWait) // it is tried again meanwhile
	if last, err := there.Ask(); last || err != nil {
		t.Errorf("during the shortage: last %v, %v", last, err)
	}
	restore()
	for _, c := range []*forwardtest.RawClient{coming, there, forwardtest.MustDial(t, s)} {
		if last, err := c.Ask(); last || err != nil {
			t.Errorf("after the shortage: last %v, %v", last, err)
		}
	}
	if len(said) > 0 {
		t.Errorf("and logged %q", <-said)
	}
	s.Stop(server.DrainTimings{})
}

// A server can end while it is short of files.
func TestEndInAShortageOfFiles(t *testing.T) {
	said := make(forwardtest.LogLines, 100)
	s := forwardtest.ServeConfig(t, server.Config{Logger: slog.New(slog.NewTextHandler(said, nil))})
	testkit.LimitFiles(t, 1)
	forwardtest.MustDial(t, s)
	forwardtest.Receive(t, "the log", said)
	s.Stop(server.DrainTimings{})
}

// Who had half of a handshake behind it when newcomers were turned away has time for the rest, though nobody else came.
func TestShutWaitsForHandshakes(t *testing.T) {
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
