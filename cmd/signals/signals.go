// Package signals tells the commands when to end.
package signals

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Until returns a context that ends with the first SIGINT or SIGTERM. The second ends the process at once, by that
// signal, however soon it follows: were the first one's end what restores the signal's own effect, one that comes in
// between would be lost.
func Until() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	came := make(chan os.Signal, 2)
	signal.Notify(came, syscall.SIGINT, syscall.SIGTERM)
	go func() { // for as long as the process lives
		<-came
		cancel()
		second := <-came
		signal.Reset(second)
		_ = syscall.Kill(os.Getpid(), second.(syscall.Signal))
	}()
	return ctx
}
