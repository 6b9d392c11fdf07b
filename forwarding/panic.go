package forwarding

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
		logger.Error(what+" panicked", "panic", Panicked(with), "stack", stack())
	}
	return with != nil
}

// Panicked says for a log what somebody panicked with: the runtime's own words, else only the type. Any other text may
// hold something of a request; the stack says where it comes from.
func Panicked(with any) string {
	switch with := with.(type) {
	case runtime.Error:
		return with.Error()
	case pumpPanic:
		return string(with)
	}
	return fmt.Sprintf("a %T", with)
}

// panickedAt is Panicked, and where: for whoever logs it later.
func panickedAt(with any) string { return Panicked(with) + "\n" + stack() }

func stack() string { return string(bytes.TrimSpace(debug.Stack())) }

// relayPanic is what writing an answer panicked with, and where.
type relayPanic string

func (p relayPanic) Error() string { return "panic in writing an answer: " + string(p) }

// pumpPanic is what a pump panicked with, and where.
type pumpPanic string
