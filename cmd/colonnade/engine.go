package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/internal/simengine"
	"colonnade/onebox"
)

func newEngine() *cli.Command {
	var listen, models, events string
	var c simengine.Config
	return &cli.Command{
		Name: "engine", Usage: "Run a simulated inference engine, for tests and for trying things out",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8000", Destination: &listen, Usage: "`ADDRESS` for requests"},
			&cli.StringFlag{Name: "models", Destination: &models, Usage: "`NAMES` of the models that it serves, separated by commas (default: any)"},
			&cli.StringFlag{Name: "kind", Destination: &c.Kind, Validator: engineKind, Usage: "`KIND` of engine that it plays, with its paths, dialects and pages about itself: " + strings.Join(simengine.Kinds, ", ") + " (default: OpenAI's paths)"},
			&cli.StringFlag{Name: "type", Value: "chat", Destination: &c.Type, Validator: engineType, Usage: "`TYPE` of its models, for -kind: chat, embedding, rerank or audio"},
			&cli.IntFlag{Name: "knee", Destination: &c.Knee, Usage: "`NUMBER` of requests that run at full speed, and share it if they are more; 0: no slowdown"},
			&cli.StringFlag{Name: "kv-events", Destination: &events, Usage: "`ADDRESS` at which it publishes the events of its prefix cache over ZeroMQ (default: none)"},
		}, engineFlags(&c)...),
		Description: `Examples:
  colonnade engine -listen 127.0.0.1:8000 -slots 16 -itl 20ms
  colonnade engine -kind llamacpp -models qwen3-8b -slots 4`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ln, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("cannot listen (flag -listen): %w", err)
			}
			if models != "" {
				c.Models = strings.Split(models, ",")
			}
			c.TTFT, c.ITL = explicit(c.TTFT), explicit(c.ITL)
			c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
			engine := simengine.New(c)
			defer engine.Close()
			stop, err := serveEvents(ctx, engine, events)
			if err != nil {
				return err
			}
			defer stop()
			fmt.Fprintf(cmd.Writer, "simulated engine at http://%s with %d slots; GET /stats, POST /faults\n",
				onebox.Local(ln.Addr().String()), c.Slots)
			return simengine.Serve(ctx, ln, engine)
		},
	}
}

// serveEvents publishes the events of an engine until stop is called.
func serveEvents(ctx context.Context, engine *simengine.Engine, address string) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen (flag -kv-events): %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { engine.ServeEvents(ctx, ln) })
	return func() { cancel(); serving.Wait() }, nil
}

// engineFlags returns the flags of a simulated engine that engine and up have in common.
func engineFlags(c *simengine.Config) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "slots", Value: 4, Destination: &c.Slots, Validator: atLeast(1), Usage: "`NUMBER` of requests that an engine runs at once; others wait in it"},
		&cli.DurationFlag{Name: "ttft", Value: 50 * time.Millisecond, Destination: &c.TTFT, Validator: notNegative, Usage: "simulated time to the first token"},
		&cli.DurationFlag{Name: "itl", Value: 10 * time.Millisecond, Destination: &c.ITL, Validator: notNegative, Usage: "simulated time between two tokens"},
		&cli.IntFlag{Name: "cache-blocks", Destination: &c.CacheBlocks, Validator: atLeast(0), Usage: "`NUMBER` of blocks of an engine's prefix cache; 0: no cache"},
		&cli.IntFlag{Name: "block-tokens", Value: 16, Destination: &c.BlockTokens, Validator: atLeast(1), Usage: "`NUMBER` of tokens of a block of the prefix cache"},
		&cli.DurationFlag{Name: "prefill", Destination: &c.Prefill, Validator: notNegative, Usage: "simulated time to compute one token of a prompt that is not cached, one prompt after another"},
	}
}

func engineKind(kind string) error {
	if !slices.Contains(simengine.Kinds, kind) {
		return fmt.Errorf("must be one of %s", strings.Join(simengine.Kinds, ", "))
	}
	return nil
}

func engineType(kind string) error {
	if !slices.Contains([]string{"chat", "embedding", "rerank", "audio"}, kind) {
		return errors.New("must be chat, embedding, rerank or audio")
	}
	return nil
}

func atLeast(least int) func(int) error {
	return func(n int) error {
		if n < least {
			return fmt.Errorf("must be at least %d", least)
		}
		return nil
	}
}

func notNegative(d time.Duration) error {
	if d < 0 {
		return errors.New("must not be negative")
	}
	return nil
}

// explicit converts a duration for an engine's config, in which zero stands for the default and less for none.
func explicit(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
