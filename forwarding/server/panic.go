package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
)

// LogPanic logs a panic in what, and reports whether there was one: recovered is the result of recover.
func LogPanic(logger *slog.Logger, what string, recovered any) bool {
	if recovered != nil {
		logger.Error("recovered from a panic", "in", what, "panic", DescribePanic(recovered), "stack", Stack())
	}
	return recovered != nil
}

// DescribePanic describes for a log what was recovered: an error of the runtime by its text, and anything else by its type, since its
// text may contain parts of a request. The stack shows where it comes from.
func DescribePanic(recovered any) string {
	switch recovered := recovered.(type) {
	case runtime.Error:
		return recovered.Error()
	case PanicError:
		return string(recovered)
	}
	return fmt.Sprintf("a %T", recovered)
}

// PanicError is a panic that one goroutine has recovered from, for another one to report: its description and its stack.
type PanicError string

// NewPanicError returns what was recovered as an error. It must be called by the goroutine that has panicked.
func NewPanicError(recovered any) PanicError {
	return PanicError(DescribePanic(recovered) + "\n" + Stack())
}

func (p PanicError) Error() string { return "panic: " + string(p) }

// Stack returns the stack of the calling goroutine.
func Stack() string { return string(bytes.TrimSpace(debug.Stack())) }
