package command

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// notifyContext returns a context that is cancelled by the first SIGINT or SIGTERM. The second ends the process at once,
// with that signal's status. (signal.NotifyContext restores the signals' default effect only after the first one has
// been handled, and loses a second one that arrives before that.)
func notifyContext() context.Context {
	last := &lastSteps{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), lastStepsKey{}, last))
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM)
	go func() { // for as long as the process lives
		<-received
		cancel()
		second := <-received
		last.run()
		signal.Reset(second)
		_ = syscall.Kill(os.Getpid(), second.(syscall.Signal))
	}()
	return ctx
}

// lastSteps are what is done before a second signal ends the process.
type lastSteps struct {
	mu  sync.Mutex // guards the field below
	all []func()
}

type lastStepsKey struct{}

// BeforeKill has a function called before a second signal ends the process at once. It must wait for nothing without a bound of seconds. ctx is that of the command.
func BeforeKill(ctx context.Context, step func()) {
	last, ok := ctx.Value(lastStepsKey{}).(*lastSteps)
	if !ok { // a test
		return
	}
	last.mu.Lock()
	defer last.mu.Unlock()
	last.all = append(last.all, step)
}

func (l *lastSteps) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, step := range l.all {
		step()
	}
}
