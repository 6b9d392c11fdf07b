package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newHealth() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health URL…",
		Short: "Ask health pages, for containers without curl; fails unless each answers 200",
		Example: `  colonnade health http://127.0.0.1:9080/health/ready
  colonnade health http://127.0.0.1:8000/health -timeout 20s`,
		Args: atLeastOne("the URL of a health page"),
		RunE: func(cmd *cobra.Command, urls []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			var failed []error
			for _, url := range urls {
				said, err := askHealth(ctx, url)
				if err != nil {
					failed = append(failed, err)
					continue
				}
				fmt.Fprintln(cmd.OutOrStdout(), said)
			}
			return errors.Join(failed...)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "how long to wait for all answers")
	return cmd
}

// askHealth returns what a page says, and an error unless it says so with 200.
func askHealth(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("cannot ask %q: %w", url, err)
	}
	// A proxy in the environment is for the way out; nobody outside knows of the health in here.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return "", fmt.Errorf("not healthy: %w", err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	said, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("not healthy: %s answers %s: %s", url, answer.Status, shown(said))
	}
	return shown(said), nil
}
