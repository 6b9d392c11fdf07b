package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// notifyContext returns a context that is cancelled by the first SIGINT or SIGTERM. The second ends the process at once,
// with that signal's status. (signal.NotifyContext restores the signals' default effect only after the first one has
// been handled, and loses a second one that arrives before that.)
func notifyContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM)
	go func() { // for as long as the process lives
		<-received
		cancel()
		second := <-received
		signal.Reset(second)
		_ = syscall.Kill(os.Getpid(), second.(syscall.Signal))
	}()
	return ctx
}
