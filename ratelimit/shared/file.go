package shared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"colonnade/internal/atomicfile"
	"colonnade/internal/ctxtime"
	"colonnade/ratelimit"
)

// readSpendings reads the sums of budgets from the file.
func readSpendings(path string) (spent map[string]ratelimit.Spending, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &spent); err != nil {
		return nil, fmt.Errorf("cannot read the sums of budgets in %s (without the file, they begin at 0): %w", path, err)
	}
	return spent, nil
}

// keepFile writes the sums of budgets to the file when they have changed, until ctx ends, and once after that.
func (l *Limiter) keepFile(ctx context.Context) {
	if l.config.File == "" {
		return
	}
	failed := false
	for {
		ctxtime.Sleep(ctx, writeInterval)
		if l.changed.Swap(false) {
			err := l.writeFile()
			if err != nil && !failed {
				l.config.Logger.Error("cannot write the sums of budgets", "error", err)
			}
			if failed = err != nil; failed {
				l.changed.Store(true)
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (l *Limiter) writeFile() error {
	text, err := json.Marshal(l.buckets.Spendings(time.Now()))
	if err != nil {
		return err
	}
	return atomicfile.Write(l.config.File, text, 0o600)
}
