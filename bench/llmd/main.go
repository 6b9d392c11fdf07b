package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// call is one call.
type call struct {
	ID        string     // of the request
	Prompt    []byte     // its text
	Endpoints []endpoint // that may get it; none: the request was sent to the endpoint that the last answer about it named
}

// endpoint is an engine, as its metrics describe it.
type endpoint struct {
	Name             string
	Waiting, Running int     // requests
	Usage            float64 // share of its KV cache, 0 to 1
	BlockTokens      int     // tokens of a block of that cache
	Blocks           int     // of that cache
}

// answer answers a call that has endpoints.
type answer struct {
	At int // index of the endpoint
}

func main() {
	runtime.GOMAXPROCS(1)         // nothing here runs beside something else, so waits of goroutines for each other are short
	debug.SetGCPercent(400)       // so little memory is in use that time counts more
	log.SetLogger(logr.Discard()) // else it warns, after a while, that there is none
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "llmd:", err)
		os.Exit(1)
	}
}

// serve answers calls until there are no more.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := newScheduler(ctx)
	calls, answers := gob.NewDecoder(bufio.NewReader(in)), gob.NewEncoder(out)
	for {
		var c call
		if err := calls.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read a call: %w", err)
		}
		if len(c.Endpoints) == 0 {
			if err := s.sent(ctx, c.ID); err != nil {
				return err
			}
			continue
		}
		at, err := s.choose(ctx, &c)
		if err != nil {
			return err
		}
		if err := answers.Encode(answer{at}); err != nil {
			return fmt.Errorf("cannot write an answer: %w", err)
		}
	}
}
