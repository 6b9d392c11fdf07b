package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
)

func newHealth() *cli.Command {
	var timeout time.Duration
	return &cli.Command{
		Name: "health", Usage: "Get health pages, and fail unless each has the status 200",
		ArgsUsage: "URL…", ArgValidator: command.RequireArgs("the URL of a health page"),
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "timeout", Value: 2 * time.Second, Destination: &timeout, Usage: "longest time for all pages"},
		},
		Description: `Examples:
  colonnade health http://127.0.0.1:9080/health/ready
  colonnade health http://127.0.0.1:8000/health -timeout 20s`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			var failed []error
			for _, url := range cmd.Args().Slice() {
				text, err := checkHealth(ctx, url)
				if err != nil {
					failed = append(failed, err)
					continue
				}
				fmt.Fprintln(cmd.Writer, text)
			}
			return errors.Join(failed...)
		},
	}
}

// checkHealth returns the first line of a page, and an error unless its status is 200.
func checkHealth(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("cannot get %q: %w", url, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy, whatever the environment says
	response, err := client.Do(r)
	if err != nil {
		return "", fmt.Errorf("not healthy: %w", err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	line = command.Printable(line)
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("not healthy: %s: %s: %s", url, response.Status, line)
	}
	return line, nil
}
