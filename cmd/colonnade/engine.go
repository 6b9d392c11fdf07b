package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"colonnade/internal/simengine"
	"colonnade/onebox"
)

func newEngine() *cobra.Command {
	var listen string
	var c simengine.Config
	cmd := &cobra.Command{
		Use:     "engine",
		Short:   "Run a simulated inference engine, for trying things out and for tests",
		Example: "  colonnade engine -listen 127.0.0.1:8000 -slots 16 -itl 20ms",
		Args:    noMore,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkEngine(c); err != nil {
				return err
			}
			ln, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("cannot listen (flag -listen): %w", err)
			}
			c.TTFT, c.ITL = exactly(c.TTFT), exactly(c.ITL)
			c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
			engine := simengine.New(c)
			defer engine.Close()
			fmt.Fprintf(cmd.OutOrStdout(), "simulated engine at http://%s with %d slots; GET /stats, POST /faults\n",
				onebox.Local(ln.Addr().String()), c.Slots)
			return simengine.Serve(cmd.Context(), ln, engine)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:8000", "address")
	flags.StringSliceVar(&c.Models, "models", nil, "models that it serves (default: whatever is asked for)")
	flags.IntVar(&c.Slots, "slots", 4, "requests that run at once; others wait in the engine")
	flags.IntVar(&c.Knee, "knee", 0, "requests that run at full speed; more than these share it (0: they never slow each other down)")
	flags.DurationVar(&c.TTFT, "ttft", 50*time.Millisecond, "time to the first token")
	flags.DurationVar(&c.ITL, "itl", 10*time.Millisecond, "time between two tokens")
	return cmd
}

// checkEngine checks what was asked for, before exactly.
func checkEngine(c simengine.Config) error {
	switch {
	case c.Slots < 1:
		return fmt.Errorf("-slots %d: must be at least 1", c.Slots)
	case c.Knee < 0:
		return fmt.Errorf("-knee %d: must not be negative", c.Knee)
	case c.TTFT < 0:
		return fmt.Errorf("-ttft %s: must not be negative", c.TTFT)
	case c.ITL < 0:
		return fmt.Errorf("-itl %s: must not be negative", c.ITL)
	}
	return nil
}

// exactly is d for the engine, for which zero is the default and less than zero is none.
func exactly(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
