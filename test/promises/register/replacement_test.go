package register_test

import (
	"syscall"
	"testing"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

const terminate = syscall.SIGTERM

// Replacing one engine after the other by a new one under load loses nothing: all requests are answered in full, by the first engine that they
// were sent to, and no engine is stopped while it has one.
func TestRollingReplacement(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{Servers: 2, ITL: tokenTime})
	old := startServing(f, "gpu-0")
	load := f.Drive(mixed())
	load.WaitServed(t, 10)
	for round := range testkit.AtScale(2, 10) {
		next := f.StartWorker("gpu-" + string(rune('a'+round)))
		next.WaitServing(5)
		old.Follow()
		leave(f, old)
		if s := old.Stats(); s.Running+s.Waiting > 0 || s.Aborted > 0 || s.Faulted > 0 || s.Served == 0 {
			t.Errorf("the engine of %s was stopped with %d running and %d waiting requests, and aborted %d", old.Name, s.Running, s.Waiting, s.Aborted)
		}
		load.WaitServed(t, 10)
		old = next
	}
	results := load.Stop()
	results.Check(t)
	if s := old.Stats(); s.Aborted > 0 || s.Faulted > 0 {
		t.Errorf("the last engine has aborted %d requests", s.Aborted)
	}
	finish(f, results)
	wantOneAttempt(f)
}

// Nothing is lost either if the home of the pool moves while an engine is taken out: to a server that joins, and back to the one before.
func TestReplacementWhileHomeMoves(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{Servers: 3, ITL: tokenTime})
	old := startServing(f, "gpu-0")
	load := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 3, proctest.Long: 4}, LongTokens: longTokens})
	load.WaitServed(t, 10)
	for round, server := range []string{"ams-1", "ams-2", "ams-3"} { // one of them is the home
		next := f.StartWorker("gpu-" + string(rune('a'+round)))
		next.WaitServing(5)
		old.Follow()
		if err := old.Signal(terminate); err != nil {
			t.Fatal(err)
		}
		f.Server(server).Leave()
		f.Server(server).Start()
		awaitLeave(f, old)
		if s := old.Stats(); s.Running+s.Waiting > 0 || s.Aborted > 0 {
			t.Errorf("the engine of %s was stopped with %d running and %d waiting requests, and aborted %d", old.Name, s.Running, s.Waiting, s.Aborted)
		}
		f.WaitReady()
		load.WaitServed(t, 10)
		old = next
	}
	results := load.Stop()
	results.Check(t)
	finish(f, results)
}
