package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
)

// LogPanic logs a panic, if what was recovered is one, and says whether it is.
func LogPanic(logger *slog.Logger, what string, with any) bool {
	if with != nil {
		logger.Error(what+" panicked", "panic", DescribePanic(with), "stack", Stack())
	}
	return with != nil
}

// DescribePanic says for a log what somebody panicked with: the runtime's own words, else only the type. Any other text may
// hold something of a request; the stack says where it comes from.
func DescribePanic(with any) string {
	switch with := with.(type) {
	case runtime.Error:
		return with.Error()
	case PanicError:
		return string(with)
	}
	return fmt.Sprintf("a %T", with)
}

// NewPanicError describes what was recovered, and where it panicked, so that another goroutine can report it.
func NewPanicError(with any) PanicError { return PanicError(DescribePanic(with) + "\n" + Stack()) }

// Stack returns the stack of the calling goroutine.
func Stack() string { return string(bytes.TrimSpace(debug.Stack())) }

// PanicError is a panic that was recovered in one goroutine and is reported by another.
type PanicError string

func (p PanicError) Error() string { return "panic: " + string(p) }
